// SPDX-License-Identifier: Apache-2.0
#include "target/tls_reader.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <vector>

#include "target/object_names.h"
#include "target/process_memory.h"
#include "target/tls_sites.h"

namespace gcause {
namespace {

/// Larger files are not searched: that would take seconds in which records pile up.
constexpr std::size_t kLargestFile = 128 << 20;

/// Whether the instruction in front of an address is a call, so that the address may be one to
/// return to. x86-64: e8 with 4 bytes behind it, or ff /2 with up to 5; aarch64: BL or BLR.
bool follows_call(ProcessMemory& memory, std::uint64_t address) {
  std::array<std::uint8_t, 7> bytes;
  if (address < bytes.size() || !memory.read(address - bytes.size(), bytes)) return false;
#if defined(__aarch64__)
  return (bytes[6] & 0xfc) == 0x94 || (bytes[6] == 0xd6 && (bytes[5] & 0xc0) == 0x00);
#else
  if (bytes[2] == 0xe8) return true;
  for (std::size_t length = 2; length <= bytes.size(); ++length) {
    const auto at = bytes.size() - length;
    if (bytes[at] == 0xff && (bytes[at + 1] & 0x38) == 0x10) return true;
  }
  return false;
#endif
}

const Mapping* mapping_at(const std::vector<Mapping>& mappings, std::uint64_t address) {
  const auto found = std::ranges::find_if(mappings, [&](const Mapping& mapping) {
    return address >= mapping.begin && address < mapping.end;
  });
  return found == mappings.end() ? nullptr : &*found;
}

/// The files on the stack, from the one that made the system call on, without the C library.
std::vector<const Mapping*> files_on_stack(const std::vector<Mapping>& mappings, std::uint32_t pid,
                                           std::span<const std::uint64_t> words) {
  ProcessMemory memory(pid);
  std::vector<const Mapping*> files;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const auto* mapping = mapping_at(mappings, words[i]);
    if (!mapping || is_libc(mapping->path) || is_dynamic_linker(mapping->path)) continue;
    if (std::ranges::find(files, mapping) != files.end()) continue;
    if (i == 0 || follows_call(memory, words[i])) files.push_back(mapping);
  }
  return files;
}

/// The interpreter, or the module with which it makes socket calls.
bool is_python(const Target& target, const Mapping& mapping) {
  return mapping.path == target.python_object || base_name(mapping.path).starts_with("_socket.");
}

}  // namespace

bool TlsReaders::speaks(std::uint32_t pid, const Mapping& mapping) {
  const auto [entry, is_new] = speaks_.try_emplace(FileKey(mapping), false);
  if (!is_new) return entry->second;
  const auto path = procfs_.open_path(pid, mapping);
  const auto elf = path ? ElfFile::open(*path) : Result<ElfFile>(path.error());
  entry->second = elf && elf->image().size() <= kLargestFile && speaks_tls(*elf);
  return entry->second;
}

std::optional<Mapping> TlsReaders::reader(const Target& target,
                                          std::span<const std::uint64_t> words) {
  const auto mappings = procfs_.executable_mappings(target.pid);
  if (!mappings) return std::nullopt;
  const auto files = files_on_stack(*mappings, target.pid, words);
  for (const auto* file : files) {
    if (speaks(target.pid, *file)) return *file;
  }
  std::vector<const Mapping*> speakers;
  for (const auto& mapping : *mappings) {
    if (!is_known_tls(target, mapping) && speaks(target.pid, mapping)) speakers.push_back(&mapping);
  }
  if (speakers.size() == 1) return *speakers.front();
  if (!speakers.empty() || files.empty() || is_python(target, *files.front())) return std::nullopt;
  return *files.front();
}

}  // namespace gcause
