// SPDX-License-Identifier: Apache-2.0
//
// The input is one loaded segment of an ELF file, code and unwind table in one; its first byte says
// where the table begins, the next two which function is asked for. What is found lies in the
// segment, and every exit in the ranges.

#include <elf.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <span>
#include <vector>

#include "target/function_exits.h"

namespace {

constexpr std::uint64_t kBase = 0x400000;

void require(bool condition) {
  if (!condition) std::abort();
}

std::vector<std::uint8_t> file_of(std::span<const std::uint8_t> bytes, std::uint64_t table) {
  Elf64_Ehdr header = {};
  std::memcpy(header.e_ident, ELFMAG, SELFMAG);
  header.e_ident[EI_CLASS] = ELFCLASS64;
  header.e_ident[EI_DATA] = ELFDATA2LSB;
  header.e_ident[EI_VERSION] = EV_CURRENT;
  header.e_type = ET_EXEC;
  header.e_machine = EM_X86_64;
  header.e_version = EV_CURRENT;
  header.e_phoff = sizeof header;
  header.e_ehsize = sizeof header;
  header.e_phentsize = sizeof(Elf64_Phdr);
  header.e_phnum = 2;
  const std::uint64_t offset = sizeof header + 2 * sizeof(Elf64_Phdr);
  const Elf64_Phdr segments[2] = {
      {PT_LOAD, PF_R | PF_X, offset, kBase, kBase, bytes.size(), bytes.size(), 1},
      {PT_GNU_EH_FRAME, PF_R, offset + table, kBase + table, kBase + table, 64, 64, 1},
  };
  std::vector<std::uint8_t> file(offset + bytes.size());
  std::memcpy(file.data(), &header, sizeof header);
  std::memcpy(file.data() + sizeof header, segments, sizeof segments);
  std::copy(bytes.begin(), bytes.end(), file.begin() + static_cast<std::ptrdiff_t>(offset));
  return file;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 4) return 0;
  const std::uint64_t table = data[0];
  const std::uint64_t asked = kBase + data[1];
  const std::uint64_t length = data[2];
  std::vector<std::uint8_t> bytes(data + 3, data + size);
  // Half of all inputs have a table of the right kind: random ones are rare.
  if (data[1] % 2 && table + 4 <= bytes.size()) {
    const std::uint8_t head[4] = {1, 0x1b, 0x03, 0x3b};
    std::copy(std::begin(head), std::end(head), bytes.begin() + static_cast<std::ptrdiff_t>(table));
  }
  const auto file = file_of(bytes, table);
  const auto elf = gcause::ElfFile::from_memory(file, "fuzz");
  require(static_cast<bool>(elf));
  for (const auto& ranges : {gcause::ranges_of_function(*elf, asked),
                             std::vector<gcause::CodeRange>{{asked, asked + length}}}) {
    const auto exits = gcause::function_exits(*elf, ranges, "f");
    if (!exits) continue;
    require(!exits->empty());
    for (const auto exit : *exits) {
      require(std::any_of(ranges.begin(), ranges.end(), [&](const gcause::CodeRange& range) {
        return range.contains(exit) && elf->file_offset(exit).has_value();
      }));
    }
  }
  return 0;
}
