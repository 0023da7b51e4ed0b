// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "target/elf_file.h"

namespace gcause {

/// What all forms of a read or write of OpenSSL call, with the arguments of the _ex form.
inline constexpr const char* kOpensslRead = "ssl_read_internal";
inline constexpr const char* kOpensslWrite = "ssl_write_internal";

/// Addresses of the two.
struct OpensslFunctions {
  std::uint64_t read;
  std::uint64_t write;
};

struct OpensslScan {
  std::optional<OpensslFunctions> functions;
  std::string result;  ///< what was found, or why nothing was
};

/// Looks for a statically linked OpenSSL 3 in a file that names none of its functions. Both report
/// an error with their own name (ssl/ssl_lib.c: ERR_raise, which OpenSSL 1.1 does by a number), so
/// each is the one function that refers to that text. Refuses where it is not exactly one.
OpensslScan scan_for_openssl(const ElfFile& elf);

}  // namespace gcause
