// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "target/code_range.h"
#include "target/elf_file.h"
#include "target/prologue.h"

namespace gcause {

/// What a probe listens to; each has its own BPF programs.
enum class ProbeKind : std::uint8_t {
  collector,       ///< bracket around the collector function: entry and return
  collector_usdt,  ///< the USDT pair gc__start, gc__done
  tls_call,        ///< entry and return; `detail` says which call
  tls_free,        ///< entry
  libc_call,       ///< entry and return of a libc call that moves bytes: the fallback for sockets
  read_return,     ///< return of a libc call that reads a socket
  world_stop,      ///< entry of the function that stops the world of a free-threaded build
  world_start,     ///< entry of the one that lets it go on
  library_load,    ///< the hook of the dynamic linker, which it calls when libraries come or go
};

/// Which signature a probed function has; the loader turns it into the attach cookie.
enum class CallShape : std::uint8_t {
  none,
  tls_read,
  tls_read_ex,
  tls_write,
  tls_write_ex,
  libc_read,
  libc_read_message,
  libc_read_vector,
  libc_write,
  libc_write_message,
  libc_write_vector,
};

struct ProbeSite {
  ProbeKind kind;
  CallShape shape = CallShape::none;
  std::string object;     ///< path as the target sees it
  std::string open_path;  ///< path under which this process reaches the same file
  std::string symbol;
  ProbePoint point;           ///< address 0 for USDT: libbpf finds its sites
  std::uint64_t file_offset;  ///< of the probed instruction
  /// File offsets of every instruction that leaves the function. Where it is not empty, the end is
  /// taken there and not by a return probe, which a seccomp filter may not survive.
  std::vector<std::uint64_t> exits = {};
  /// Where the function's code lies, first the part that it is entered at; only of collectors.
  std::vector<CodeRange> ranges = {};
};

/// One file that a process has mapped, opened.
struct MappedObject {
  std::string path;       ///< as the process sees it
  std::string open_path;  ///< as it is reached from here
  ElfFile elf;
};

/// Puts the site's probe into the function at `address`.
void place(ProbeSite& site, const ElfFile& elf, std::uint64_t address);

/// A site in the function of `object` at `address`.
ProbeSite make_site(const MappedObject& object, ProbeKind kind, CallShape shape, std::string symbol,
                    std::uint64_t address);

}  // namespace gcause
