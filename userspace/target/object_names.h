// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace gcause {

// What mapped files are, by their names.

inline std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);
}

/// glibc before 2.34 has a second copy of the socket calls in libpthread.
inline bool is_libc(std::string_view path) {
  const auto name = base_name(path);
  return name.starts_with("libc.so") || name.starts_with("libc-") ||
         name.starts_with("libpthread") || name.starts_with("ld-musl");
}

/// In musl it is the C library, too.
inline bool is_dynamic_linker(std::string_view path) {
  const auto name = base_name(path);
  return name.starts_with("ld-") || name.starts_with("ld.so") || name.starts_with("ld64.so");
}

/// CPython's own module for TLS.
inline bool is_ssl_module(std::string_view path) { return base_name(path).starts_with("_ssl."); }

}  // namespace gcause
