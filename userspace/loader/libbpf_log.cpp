// SPDX-License-Identifier: Apache-2.0
#include "loader/libbpf_log.h"

#include <bpf/libbpf.h>

#include <cstdarg>
#include <cstdio>

namespace gcause {
namespace {

/// libbpf hands its callback no context, so this is the one place that needs a global.
std::string& first_warning() {
  static std::string text;
  return text;
}

int keep(libbpf_print_level level, const char* format, va_list arguments) {
  if (level == LIBBPF_WARN && first_warning().empty()) {
    char line[512];
    std::vsnprintf(line, sizeof line, format, arguments);
    first_warning() = line;
  }
  return 0;
}

}  // namespace

void collect_libbpf_warnings() {
  first_warning().clear();
  ::libbpf_set_print(keep);
}

std::string first_libbpf_warning() {
  const auto& text = first_warning();
  return text.substr(0, text.find('\n'));
}

}  // namespace gcause
