// SPDX-License-Identifier: Apache-2.0
#include "target/python.h"

#include <cstdio>
#include <cstring>

namespace gcause {
namespace {

std::string_view base_name(std::string_view path) {
  return path.substr(path.rfind('/') + 1);  // npos + 1 is 0: the whole
}

std::string version_text(std::uint32_t hex) {
  char text[32];
  std::snprintf(text, sizeof text, "%u.%u.%u", hex >> 24, (hex >> 16) & 0xff, (hex >> 8) & 0xff);
  return text;
}

std::optional<std::uint64_t> read_word(const ElfFile& elf, std::uint64_t address) {
  const auto bytes = elf.bytes_at(address, sizeof(std::uint64_t));
  std::uint64_t word = 0;
  if (bytes.size() != sizeof word) return std::nullopt;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

/// "libpython3.10.so.1.0" or "python3.9": major and minor only.
std::optional<std::uint32_t> version_in_name(std::string_view path) {
  const auto name = base_name(path);
  const auto at = name.find("python");
  unsigned major = 0, minor = 0;
  if (at == std::string_view::npos) return std::nullopt;
  const std::string rest(name.substr(at + 6));
  if (std::sscanf(rest.c_str(), "%2u.%2u", &major, &minor) != 2) return std::nullopt;
  return major << 24 | minor << 16;
}

/// Follows Include/internal/pycore_debug_offsets.h: cookie, version, free_threaded, 8 bytes each.
std::optional<bool> debug_offsets_free_threaded(const ElfFile& elf) {
  const auto runtime = elf.find("_PyRuntime");
  if (!runtime) return std::nullopt;
  const auto cookie = elf.bytes_at(runtime->address, 8);
  if (cookie.size() != 8 || std::memcmp(cookie.data(), "xdebugpy", 8) != 0) return std::nullopt;
  const auto flag = read_word(elf, runtime->address + 16);
  if (!flag || *flag > 1) return std::nullopt;
  return *flag == 1;
}

}  // namespace

RuntimeKind runtime_of(const ElfFile& elf, std::string_view path) {
  if (base_name(path).find("pypy") != std::string_view::npos) return RuntimeKind::other;
  return elf.find("PyGC_Collect") && elf.find("_PyRuntime") ? RuntimeKind::cpython
                                                            : RuntimeKind::none;
}

PythonBuild python_build(const ElfFile& elf, std::string_view path) {
  PythonBuild build;
  if (const auto symbol = elf.find("Py_Version")) {
    if (const auto word = read_word(elf, symbol->address)) {
      build.hex = static_cast<std::uint32_t>(*word);
      build.version = version_text(*build.hex);
    }
  }
  if (!build.hex) {
    build.hex = version_in_name(path);
    if (build.hex) {
      build.version =
          std::to_string(*build.hex >> 24) + "." + std::to_string((*build.hex >> 16) & 0xff);
    }
  }
  if (build.hex && *build.hex < 0x030d0000) {
    build.free_threaded = false;
  } else {
    build.free_threaded = debug_offsets_free_threaded(elf);
  }
  return build;
}

}  // namespace gcause
