// SPDX-License-Identifier: Apache-2.0
#include "target/code_image.h"

#include <elf.h>
#include <gelf.h>

#include <cstring>

namespace gcause {

std::optional<CodeImage> CodeImage::make(const ElfFile& elf, std::string& why) {
  GElf_Ehdr header;
  if (!::gelf_getehdr(elf.handle(), &header) || header.e_ident[EI_CLASS] != ELFCLASS64 ||
      header.e_ident[EI_DATA] != ELFDATA2LSB ||
      (header.e_machine != EM_X86_64 && header.e_machine != EM_AARCH64)) {
    why = "its code is neither x86-64 nor aarch64";
    return std::nullopt;
  }
  CodeImage image;
  image.machine_ = header.e_machine == EM_X86_64 ? Machine::x86_64 : Machine::aarch64;
  image.position_dependent_ = header.e_type == ET_EXEC;
  const auto file = elf.image();
  std::uint64_t loaded = 0;
  for (const auto& segment : elf.segments()) {
    loaded += segment.size;
    image.segments_.push_back(
        {segment.address, file.subspan(segment.offset, segment.size), segment.executable});
  }
  // Linkers let neighbours share a page; a file whose segments overlap widely is made to cost time.
  if (loaded > 2 * static_cast<std::uint64_t>(file.size())) {
    why = "its segments overlap";
    return std::nullopt;
  }
  return image;
}

std::span<const std::uint8_t> CodeImage::from(std::uint64_t address) const {
  for (const auto& segment : segments_) {
    if (address >= segment.address && address - segment.address < segment.bytes.size()) {
      return segment.bytes.subspan(address - segment.address);
    }
  }
  return {};
}

bool CodeImage::is_code(std::uint64_t address) const {
  for (const auto& segment : segments_) {
    if (segment.executable && address >= segment.address &&
        address - segment.address < segment.bytes.size()) {
      return true;
    }
  }
  return false;
}

std::vector<std::uint64_t> CodeImage::find(std::span<const std::uint8_t> bytes,
                                           std::size_t limit) const {
  std::vector<std::uint64_t> found;
  // Linkers keep constants out of executable segments, except old ones.
  for (const bool executable : {false, true}) {
    for (const auto& segment : segments_) {
      auto rest = segment.bytes;
      while (segment.executable == executable && found.size() < limit) {
        const void* at = ::memmem(rest.data(), rest.size(), bytes.data(), bytes.size());
        if (!at) break;
        const auto* hit = static_cast<const std::uint8_t*>(at);
        found.push_back(segment.address + static_cast<std::uint64_t>(hit - segment.bytes.data()));
        rest = rest.subspan(static_cast<std::size_t>(hit - rest.data()) + 1);
      }
    }
    if (!found.empty()) break;
  }
  return found;
}

}  // namespace gcause
