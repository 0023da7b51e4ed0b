// SPDX-License-Identifier: Apache-2.0
#include "elf_builder.h"

#include <elf.h>
#include <lzma.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace gcause::testing {
namespace {

void require(bool condition) {
  if (!condition) std::abort();
}

template <typename T>
requires std::is_trivially_copyable_v<T>
void append(Bytes& into, const T& value) {
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(&value);
  into.insert(into.end(), bytes, bytes + sizeof value);
}

void append_text(Bytes& into, std::string_view text) {
  into.insert(into.end(), text.begin(), text.end());
}

void pad(Bytes& into, std::size_t alignment) {
  into.resize((into.size() + alignment - 1) / alignment * alignment);
}

Bytes note(std::string_view name, std::uint32_t type, const Bytes& descriptor) {
  Bytes bytes;
  append(bytes, Elf64_Nhdr{static_cast<std::uint32_t>(name.size() + 1),
                           static_cast<std::uint32_t>(descriptor.size()), type});
  append_text(bytes, name);
  bytes.push_back(0);
  pad(bytes, 4);
  bytes.insert(bytes.end(), descriptor.begin(), descriptor.end());
  pad(bytes, 4);
  return bytes;
}

}  // namespace

void Assembler::append(std::uint64_t value, unsigned count) {
  for (unsigned i = 0; i < count; ++i) bytes_.push_back(static_cast<std::uint8_t>(value >> 8 * i));
}

void Assembler::x86(std::initializer_list<std::uint8_t> opcode, std::uint64_t target) {
  bytes_.insert(bytes_.end(), opcode);
  append(target - (here() + 4), 4);
}

Assembler& Assembler::call(std::uint64_t target) {
  if (machine_ == EM_X86_64) {
    x86({0xe8}, target);
  } else {
    append(0x94000000u | ((target - here()) >> 2 & 0x3ffffff), 4);
  }
  return *this;
}

Assembler& Assembler::jump(std::uint64_t target) {
  if (machine_ == EM_X86_64) {
    x86({0xe9}, target);
  } else {
    append(0x14000000u | ((target - here()) >> 2 & 0x3ffffff), 4);
  }
  return *this;
}

Assembler& Assembler::jump_if(std::uint64_t target) {
  if (machine_ == EM_X86_64) {
    x86({0x0f, 0x84}, target);
  } else {
    append(0x54000000u | ((target - here()) >> 2 & 0x7ffff) << 5, 4);
  }
  return *this;
}

Assembler& Assembler::take_address(std::uint64_t data) {
  if (machine_ == EM_X86_64) {
    x86({0x48, 0x8d, 0x3d}, data);
  } else {
    const auto pages = (data >> 12) - (here() >> 12);
    append(0x90000000u | (pages & 3) << 29 | (pages >> 2 & 0x7ffff) << 5, 4);
    append(0xd503201fu, 4);  // nop
    append(0x91000000u | (data & 0xfff) << 10, 4);
  }
  return *this;
}

Assembler& Assembler::take_absolute_address(std::uint32_t data) {
  bytes_.push_back(0xbf);
  append(data, 4);
  return *this;
}

Assembler& Assembler::nops(unsigned count) {
  for (unsigned i = 0; i < count; ++i) {
    if (machine_ == EM_X86_64) {
      append(0x90, 1);
    } else {
      append(0xd503201fu, 4);
    }
  }
  return *this;
}

Assembler& Assembler::ret() {
  if (machine_ == EM_X86_64) {
    append(0xc3, 1);
  } else {
    append(0xd65f03c0u, 4);
  }
  return *this;
}

void ElfBuilder::add_code(std::uint64_t address, const Bytes& code, bool mid_function) {
  require(address >= kCode && address + code.size() <= kCodeEnd);
  std::copy(code.begin(), code.end(), loaded_.begin() + static_cast<std::ptrdiff_t>(address));
  stretches_.push_back({address, code.size(), mid_function});
}

void ElfBuilder::add_constant(std::uint64_t address, std::string_view bytes) {
  require(address >= kConstants && address + bytes.size() <= kCode);
  std::copy(bytes.begin(), bytes.end(), loaded_.begin() + static_cast<std::ptrdiff_t>(address));
}

void ElfBuilder::add_symbol(std::string name, std::uint64_t address, std::uint64_t size,
                            bool exported, bool function) {
  symbols_.push_back({std::move(name), address, size, exported, function});
}

void ElfBuilder::add_section(std::string name, Bytes bytes, std::uint32_t type) {
  extra_.push_back({std::move(name), type, std::move(bytes)});
}

void ElfBuilder::add_usdt(std::string_view provider, std::string_view name) {
  Bytes descriptor(3 * 8);
  for (const auto text : {provider, name, std::string_view()}) {
    append_text(descriptor, text);
    descriptor.push_back(0);
  }
  add_section(".note.stapsdt", note("stapsdt", 3, descriptor), SHT_NOTE);
}

/// .eh_frame_hdr with its table, and .eh_frame behind it.
Bytes ElfBuilder::unwinding(std::uint64_t at) const {
  auto stretches = stretches_;
  std::sort(stretches.begin(), stretches.end(),
            [](const Stretch& a, const Stretch& b) { return a.begin < b.begin; });
  const auto frames_at = at + 12 + 8 * stretches.size();
  Bytes frames;
  append(frames, std::uint32_t{0x14});                                       // length
  append(frames, std::uint32_t{0});                                          // a CIE
  append_text(frames, std::string_view("\x01zR\0\x01\x78\x10\x01\x1b", 9));  // pcrel, sdata4
  append_text(frames, std::string_view("\x0c\x07\x08\x90\x01\0\0", 7));
  std::vector<std::uint64_t> descriptions;
  for (const auto& stretch : stretches) {
    const auto here = frames_at + frames.size();
    descriptions.push_back(here);
    append(frames, std::uint32_t{0x14});
    append(frames, static_cast<std::uint32_t>(here + 4 - frames_at));  // back to the CIE
    append(frames, static_cast<std::uint32_t>(stretch.begin - (here + 8)));
    append(frames, static_cast<std::uint32_t>(stretch.size));
    frames.push_back(0);  // no augmentation data
    // DW_CFA_def_cfa_offset 48 at once, or DW_CFA_advance_loc 1 before it.
    append_text(frames, stretch.mid_function ? std::string_view("\x0e\x30\0\0\0\0\0", 7)
                                             : std::string_view("\x41\x0e\x30\0\0\0\0", 7));
  }
  append(frames, std::uint32_t{0});
  Bytes bytes{1, 0x1b, 0x03, 0x3b};
  append(bytes, static_cast<std::uint32_t>(frames_at - (at + 4)));
  append(bytes, static_cast<std::uint32_t>(stretches.size()));
  for (std::size_t i = 0; i < stretches.size(); ++i) {
    append(bytes, static_cast<std::uint32_t>(stretches[i].begin - at));
    append(bytes, static_cast<std::uint32_t>(descriptions[i] - at));
  }
  bytes.insert(bytes.end(), frames.begin(), frames.end());
  return bytes;
}

std::vector<ElfBuilder::Section> ElfBuilder::sections() const {
  std::vector<Section> sections{{"", SHT_NULL, {}}};
  for (const bool exported : {true, false}) {
    Section names{exported ? ".dynstr" : ".strtab", SHT_STRTAB, {0}};
    Section table{exported ? ".dynsym" : ".symtab",
                  static_cast<std::uint32_t>(exported ? SHT_DYNSYM : SHT_SYMTAB),
                  Bytes(sizeof(Elf64_Sym))};
    for (const auto& symbol : symbols_) {
      if (symbol.exported != exported) continue;
      Elf64_Sym entry = {};
      entry.st_name = static_cast<Elf64_Word>(names.bytes.size());
      entry.st_info = ELF64_ST_INFO(STB_GLOBAL, symbol.function ? STT_FUNC : STT_OBJECT);
      entry.st_shndx = 1;
      entry.st_value = symbol.address;
      entry.st_size = symbol.size;
      append(table.bytes, entry);
      append_text(names.bytes, symbol.name);
      names.bytes.push_back(0);
    }
    if (table.bytes.size() == sizeof(Elf64_Sym)) continue;
    sections.push_back(std::move(names));
    table.link = static_cast<std::uint32_t>(sections.size() - 1);
    table.entry_size = sizeof(Elf64_Sym);
    sections.push_back(std::move(table));
  }
  if (!build_id_.empty()) {
    sections.push_back({".note.gnu.build-id", SHT_NOTE, note("GNU", NT_GNU_BUILD_ID, build_id_)});
  }
  sections.insert(sections.end(), extra_.begin(), extra_.end());
  return sections;
}

Bytes ElfBuilder::build() const {
  Bytes file = loaded_;
  const auto frames_at = file.size();
  const auto frames = unwinding(frames_at);
  file.insert(file.end(), frames.begin(), frames.end());
  const auto frames_end = file.size();

  auto all = sections();
  Section names{".shstrtab", SHT_STRTAB, {}};
  std::vector<Elf64_Shdr> headers;
  for (std::size_t i = 0; i <= all.size(); ++i) {
    const auto& section = i < all.size() ? all[i] : names;
    Elf64_Shdr header = {};
    header.sh_name = static_cast<Elf64_Word>(names.bytes.size());
    append_text(names.bytes, section.name);
    names.bytes.push_back(0);
    pad(file, 8);
    header.sh_type = section.type;
    header.sh_offset = file.size();
    header.sh_size = section.bytes.size();
    header.sh_link = section.link;
    header.sh_entsize = section.entry_size;
    header.sh_addralign = section.type == SHT_NOTE ? 4 : 1;
    file.insert(file.end(), section.bytes.begin(), section.bytes.end());
    headers.push_back(header);
  }
  pad(file, 8);
  Elf64_Ehdr head = {};
  std::memcpy(head.e_ident, ELFMAG, SELFMAG);
  head.e_ident[EI_CLASS] = ELFCLASS64;
  head.e_ident[EI_DATA] = ELFDATA2LSB;
  head.e_ident[EI_VERSION] = EV_CURRENT;
  head.e_type = static_cast<Elf64_Half>(type_);
  head.e_machine = static_cast<Elf64_Half>(machine_);
  head.e_version = EV_CURRENT;
  head.e_phoff = sizeof head;
  head.e_shoff = file.size();
  head.e_ehsize = sizeof head;
  head.e_phentsize = sizeof(Elf64_Phdr);
  head.e_phnum = 4;
  head.e_shentsize = sizeof(Elf64_Shdr);
  head.e_shnum = static_cast<Elf64_Half>(headers.size());
  head.e_shstrndx = static_cast<Elf64_Half>(headers.size() - 1);
  for (const auto& header : headers) append(file, header);

  const auto program = [](std::uint32_t type, std::uint32_t flags, std::uint64_t from,
                          std::uint64_t to) {
    return Elf64_Phdr{type, flags, from, from, from, to - from, to - from, 8};
  };
  Bytes start;
  append(start, head);
  append(start, program(PT_LOAD, PF_R, 0, kCode));
  append(start, program(PT_LOAD, PF_R | PF_X, kCode, kCodeEnd));
  append(start, program(PT_LOAD, PF_R, frames_at, frames_end));
  append(start, program(PT_GNU_EH_FRAME, PF_R, frames_at, frames_end));
  require(start.size() <= kConstants);
  std::copy(start.begin(), start.end(), file.begin());
  return file;
}

Bytes cpython_alike(ElfBuilder& builder, Cold cold) {
  using namespace std::string_view_literals;
  const auto machine = builder.machine();
  const auto code = [&](std::uint64_t address) { return Assembler(machine, address); };
  builder.add_constant(Alike::kBanner, "gc: collecting generation %d...\n\0"sv);
  builder.add_constant(Alike::kDone, "gc: done, %zd unreachable\0"sv);
  builder.add_code(Alike::kManual,
                   code(Alike::kManual).nops(2).call(Alike::kCollector).ret().bytes());
  auto collector = code(Alike::kCollector);
  auto fragment = code(Alike::kCold);
  collector.nops(4);
  if (cold == Cold::none) {
    collector.take_address(Alike::kBanner).take_address(Alike::kDone);
  } else {
    for (int i = 0; i < 3; ++i) collector.jump_if(Alike::kCold + 4 * i);
    fragment.nops(4).take_address(Alike::kBanner).take_address(Alike::kDone);
    fragment.jump(Alike::kCollector + 8);
  }
  collector.ret();
  auto body = collector.bytes();
  body.resize(Alike::kCollectorSize);
  builder.add_code(Alike::kCollector, body);
  builder.add_code(Alike::kOther, code(Alike::kOther).nops(8).jump(Alike::kManual).bytes());
  if (cold != Cold::none) {
    auto cold_body = fragment.bytes();
    cold_body.resize(Alike::kColdSize);
    builder.add_code(Alike::kCold, cold_body, cold == Cold::by_unwinding);
  }
  builder.add_symbol("PyGC_Collect", Alike::kManual, 16);
  builder.add_symbol("_PyRuntime", ElfBuilder::kConstants + 0x200, 64, true, false);
  return builder.build();
}

Bytes packed(const Bytes& bytes) {
  Bytes into(::lzma_stream_buffer_bound(bytes.size()));
  std::size_t size = 0;
  const auto state = ::lzma_easy_buffer_encode(1, LZMA_CHECK_CRC32, nullptr, bytes.data(),
                                               bytes.size(), into.data(), &size, into.size());
  require(state == LZMA_OK);
  into.resize(size);
  return into;
}

}  // namespace gcause::testing
