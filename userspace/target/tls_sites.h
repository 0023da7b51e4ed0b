// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "target/elf_file.h"
#include "target/probe_site.h"

namespace gcause {

/// How the functions of a TLS library were found.
enum class TlsSource : std::uint8_t {
  symbols,  ///< in a symbol table of the file
  code,     ///< in the code itself: the file names none of them
  none,     ///< the file speaks TLS, but where is not known: its connections cannot be read
};

/// A copy of a TLS library in a process: a file of its own, or a part of one.
struct TlsObject {
  std::string object;                  ///< path as the process sees it
  TlsSource source;
  std::vector<std::string> functions;  ///< that are listened to
  bool on_use = false;                 ///< only once a connection is seen to be its
};

/// Where a copy of a TLS library is probed.
struct TlsProbes {
  TlsObject library;
  std::vector<ProbeSite> sites;
};

/// The reads and writes of OpenSSL, its kin (BoringSSL, LibreSSL) and GnuTLS in a mapped file:
/// nothing where it has none that can be probed. `in_code` has them looked for in the code where no
/// symbol names them, which takes a look at all of the file.
std::optional<TlsProbes> tls_probes_of(const MappedObject& object, bool in_code);

/// Whether the file holds the texts that every implementation of TLS needs. Looks at all of it.
bool speaks_tls(const ElfFile& elf);

/// The exported functions that a site stands for which sits in what they all call; just the site,
/// where it is in a function of its own. For those who cannot use the shared one. `elf` is the
/// site's object.
std::vector<ProbeSite> exported_sites(const ElfFile& elf, const ProbeSite& site);

}  // namespace gcause
