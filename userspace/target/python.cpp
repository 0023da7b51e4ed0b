// SPDX-License-Identifier: Apache-2.0
#include "target/python.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdio>
#include <cstring>

namespace gcause {
namespace {

using namespace std::string_view_literals;

constexpr std::uint64_t kMostConstants = 64 << 20;  ///< bytes that are searched for a version

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

/// The end of a version as patchlevel.h spells it, behind major and minor: ".2", ".0rc1", ".2+".
bool is_patch_level(std::string_view rest) {
  const auto digits = [&rest] {
    const auto end = std::min(rest.find_first_not_of("0123456789"), rest.size());
    rest.remove_prefix(end);
    return end >= 1 && end <= 2;
  };
  if (!rest.starts_with('.')) return false;
  rest.remove_prefix(1);
  if (!digits()) return false;
  for (const std::string_view level : {"a", "b", "rc"}) {
    if (!rest.starts_with(level)) continue;
    rest.remove_prefix(level.size());
    return digits() && (rest.empty() || rest == "+");
  }
  return rest.empty() || rest == "+";
}

/// The constants of the file, where a version is looked for.
std::optional<std::uint32_t> version_in_file(const ElfFile& elf) {
  const auto section = elf.section(".rodata");
  if (!section || section->size > kMostConstants) return std::nullopt;
  const auto bytes = elf.bytes_at(section->address, section->size);
  return version_in_constants({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
}

}  // namespace

RuntimeKind runtime_of(const ElfFile& elf, std::string_view path) {
  if (base_name(path).find("pypy") != std::string_view::npos) return RuntimeKind::other;
  return elf.find("PyGC_Collect") && elf.find("_PyRuntime") ? RuntimeKind::cpython
                                                            : RuntimeKind::none;
}

std::optional<std::uint32_t> version_in_constants(std::string_view text) {
  std::optional<std::uint32_t> found;
  for (auto at = text.find("\0003."sv); at != std::string_view::npos;
       at = text.find("\0003."sv, at + 1)) {
    const auto end = text.find('\0', at + 1);
    if (end == std::string_view::npos) break;
    const auto constant = text.substr(at + 1, end - at - 1);
    const auto dot = constant.find('.', 2);
    const auto minor = constant.substr(2, dot - std::min<std::size_t>(dot, 2));
    if (dot == std::string_view::npos || constant.size() > 12) continue;
    unsigned value = 0;
    const auto parsed = std::from_chars(minor.data(), minor.data() + minor.size(), value);
    if (parsed.ec != std::errc() || parsed.ptr != minor.data() + minor.size()) continue;
    if (value < 8 || value > 99 || !is_patch_level(constant.substr(dot))) continue;
    // What names the standard library must say the same: other libraries have versions, too.
    const auto library = "python3." + std::string(minor);
    if (text.find(library) == std::string_view::npos) continue;
    const std::uint32_t hex = 3u << 24 | value << 16;
    if (found && *found != hex) return std::nullopt;
    found = hex;
  }
  return found;
}

PythonBuild python_build(const ElfFile& elf, std::string_view path) {
  PythonBuild build;
  const auto runtime = runtime_symbol(elf);
  const auto head =
      runtime ? debug_offsets_head(elf.bytes_at(*runtime, kDebugOffsetsBytes)) : std::nullopt;
  if (const auto symbol = elf.find("Py_Version")) {
    const auto word = read_word(elf, symbol->address);
    if (word && *word <= UINT32_MAX) build.hex = static_cast<std::uint32_t>(*word);
  }
  if (!build.hex && head) build.hex = head->hex;
  if (build.hex) {
    build.version = version_text(*build.hex);
  } else {
    const auto soname = elf.soname();
    if (soname) build.hex = version_in_name(*soname);
    if (!build.hex) build.hex = version_in_name(path);
    if (!build.hex) build.hex = version_in_file(elf);
    if (build.hex) {
      build.version =
          std::to_string(*build.hex >> 24) + "." + std::to_string((*build.hex >> 16) & 0xff);
    }
  }
  if (head) {
    build.free_threaded = head->free_threaded;
  } else if (build.hex && *build.hex < 0x030d0000) {
    build.free_threaded = false;
  }
  return build;
}

}  // namespace gcause
