// SPDX-License-Identifier: Apache-2.0
#include "target/elf_file.h"

#include <elfutils/libdwelf.h>
#include <fcntl.h>
#include <gelf.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gcause {
namespace {

constexpr std::uint32_t kStapsdtNote = 3;  // NT_STAPSDT, sys/sdt.h
constexpr std::size_t kMaxSegments = 64;
constexpr std::size_t kMaxBuildId = 64;

/// The program header of the loaded segment that holds `address` in the file.
std::optional<GElf_Phdr> segment_of(Elf* elf, std::uint64_t address) {
  std::size_t count = 0;
  if (::elf_getphdrnum(elf, &count) != 0) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (!::gelf_getphdr(elf, static_cast<int>(i), &header)) return std::nullopt;
    if (header.p_type == PT_LOAD && address >= header.p_vaddr &&
        address - header.p_vaddr < header.p_filesz) {
      return header;
    }
  }
  return std::nullopt;
}

/// False when `visit` has seen enough.
bool visit_table(Elf* elf, Elf_Scn* section, const GElf_Shdr& header,
                 const std::function<bool(const ElfSymbol&)>& visit) {
  Elf_Data* data = ::elf_getdata(section, nullptr);
  if (!data || header.sh_entsize == 0) return true;
  const auto count = std::min<std::uint64_t>(header.sh_size / header.sh_entsize, INT32_MAX);
  for (std::uint64_t i = 0; i < count; ++i) {
    GElf_Sym symbol;
    if (!::gelf_getsym(data, static_cast<int>(i), &symbol)) break;
    if (symbol.st_shndx == SHN_UNDEF) continue;
    const char* name = ::elf_strptr(elf, header.sh_link, symbol.st_name);
    if (!name || !*name) continue;
    const ElfSymbol found{
        name, symbol.st_value, symbol.st_size,
        GELF_ST_TYPE(symbol.st_info) == STT_FUNC || GELF_ST_TYPE(symbol.st_info) == STT_GNU_IFUNC};
    if (!visit(found)) return false;
  }
  return true;
}

/// A note's descriptor: three addresses, then provider and name, each ended by a zero.
bool is_usdt(std::string_view descriptor, std::size_t address_size, std::string_view provider,
             std::string_view name) {
  if (descriptor.size() < 3 * address_size) return false;
  const auto strings = descriptor.substr(3 * address_size);
  const std::string wanted = std::string(provider) + '\0' + std::string(name) + '\0';
  return strings.starts_with(wanted);
}

Error not_elf(const std::string& name) {
  return Error{name + " is not an ELF file that can be read", "check the file"};
}

}  // namespace

Result<ElfFile> ElfFile::open(const std::string& path) {
  Fd fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!fd) {
    return Error{"cannot open " + path + ": " + std::strerror(errno),
                 "run gcause as root, or give it CAP_SYS_PTRACE"};
  }
  return open(std::move(fd), path);
}

Result<ElfFile> ElfFile::open(Fd fd, const std::string& name) {
  ::elf_version(EV_CURRENT);
  std::unique_ptr<Elf, Closer> elf(::elf_begin(fd.get(), ELF_C_READ_MMAP, nullptr));
  if (!elf || ::elf_kind(elf.get()) != ELF_K_ELF) return not_elf(name);
  return ElfFile(std::move(fd), {}, std::move(elf));
}

Result<ElfFile> ElfFile::from_memory(std::vector<std::uint8_t> bytes, const std::string& name) {
  ::elf_version(EV_CURRENT);
  std::unique_ptr<Elf, Closer> elf(
      bytes.empty() ? nullptr : ::elf_memory(reinterpret_cast<char*>(bytes.data()), bytes.size()));
  if (!elf || ::elf_kind(elf.get()) != ELF_K_ELF) return not_elf(name);
  return ElfFile(Fd(), std::move(bytes), std::move(elf));
}

void ElfFile::for_each_symbol(const std::function<bool(const ElfSymbol&)>& visit) const {
  for (const auto type : {SHT_SYMTAB, SHT_DYNSYM}) {
    Elf_Scn* section = nullptr;
    while ((section = ::elf_nextscn(elf_.get(), section)) != nullptr) {
      GElf_Shdr header;
      if (!::gelf_getshdr(section, &header) || header.sh_type != static_cast<GElf_Word>(type)) {
        continue;
      }
      if (!visit_table(elf_.get(), section, header, visit)) return;
    }
  }
}

std::optional<ElfSymbol> ElfFile::find(std::string_view name) const {
  std::optional<ElfSymbol> found;
  for_each_symbol([&](const ElfSymbol& symbol) {
    if (symbol.name == name) found = symbol;
    return !found;
  });
  return found;
}

bool ElfFile::has_usdt(std::string_view provider, std::string_view name) const {
  const std::size_t address_size = ::gelf_getclass(elf_.get()) == ELFCLASS64 ? 8 : 4;
  Elf_Scn* section = nullptr;
  while ((section = ::elf_nextscn(elf_.get(), section)) != nullptr) {
    GElf_Shdr header;
    if (!::gelf_getshdr(section, &header) || header.sh_type != SHT_NOTE) continue;
    Elf_Data* data = ::elf_getdata(section, nullptr);
    if (!data) continue;
    GElf_Nhdr note;
    std::size_t name_at = 0, descriptor_at = 0, offset = 0;
    while ((offset = ::gelf_getnote(data, offset, &note, &name_at, &descriptor_at)) > 0) {
      const char* base = static_cast<const char*>(data->d_buf);
      if (note.n_type != kStapsdtNote || note.n_namesz != 8 ||
          std::memcmp(base + name_at, "stapsdt", 8) != 0) {
        continue;
      }
      if (is_usdt({base + descriptor_at, note.n_descsz}, address_size, provider, name)) return true;
    }
  }
  return false;
}

std::optional<std::uint64_t> ElfFile::file_offset(std::uint64_t address) const {
  const auto segment = segment_of(elf_.get(), address);
  if (!segment) return std::nullopt;
  return address - segment->p_vaddr + segment->p_offset;
}

std::vector<std::uint8_t> ElfFile::bytes_at(std::uint64_t address, std::size_t count) const {
  const auto segment = segment_of(elf_.get(), address);
  if (!segment) return {};
  const auto within = address - segment->p_vaddr;
  count = std::min<std::uint64_t>(count, segment->p_filesz - within);
  const auto offset = within + segment->p_offset;
  if (!fd_) {
    if (offset >= memory_.size()) return {};
    const auto from = memory_.begin() + static_cast<std::ptrdiff_t>(offset);
    return {from, from + static_cast<std::ptrdiff_t>(
                             std::min<std::uint64_t>(count, memory_.size() - offset))};
  }
  std::vector<std::uint8_t> bytes(count);
  const auto got = ::pread(fd_.get(), bytes.data(), count, static_cast<off_t>(offset));
  bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
  return bytes;
}

std::optional<std::uint64_t> ElfFile::executable_address(std::uint64_t offset,
                                                         std::uint64_t length) const {
  std::size_t count = 0;
  if (::elf_getphdrnum(elf_.get(), &count) != 0) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (!::gelf_getphdr(elf_.get(), static_cast<int>(i), &header)) return std::nullopt;
    const bool executable = header.p_type == PT_LOAD && (header.p_flags & PF_X);
    // The mapping begins at a page, the segment may begin within it.
    const bool shows = offset < header.p_offset ? header.p_offset - offset < length
                                                : offset - header.p_offset < header.p_filesz;
    if (executable && shows) return header.p_vaddr + (offset - header.p_offset);
  }
  return std::nullopt;
}

std::optional<ElfSection> ElfFile::section(std::string_view name) const {
  std::size_t names = 0;
  if (::elf_getshdrstrndx(elf_.get(), &names) != 0) return std::nullopt;
  Elf_Scn* section = nullptr;
  while ((section = ::elf_nextscn(elf_.get(), section)) != nullptr) {
    GElf_Shdr header;
    if (!::gelf_getshdr(section, &header) || !(header.sh_flags & SHF_ALLOC)) continue;
    const char* found = ::elf_strptr(elf_.get(), names, header.sh_name);
    if (found && name == found) return ElfSection{header.sh_addr, header.sh_size};
  }
  return std::nullopt;
}

std::optional<std::string> ElfFile::soname() const {
  Elf_Scn* section = nullptr;
  while ((section = ::elf_nextscn(elf_.get(), section)) != nullptr) {
    GElf_Shdr header;
    if (!::gelf_getshdr(section, &header) || header.sh_type != SHT_DYNAMIC) continue;
    Elf_Data* data = ::elf_getdata(section, nullptr);
    GElf_Dyn entry;
    for (int i = 0; data && ::gelf_getdyn(data, i, &entry) && entry.d_tag != DT_NULL; ++i) {
      if (entry.d_tag != DT_SONAME) continue;
      const char* name = ::elf_strptr(elf_.get(), header.sh_link, entry.d_un.d_val);
      return name ? std::optional<std::string>(name) : std::nullopt;
    }
  }
  return std::nullopt;
}

unsigned ElfFile::machine() const {
  GElf_Ehdr header;
  return ::gelf_getehdr(elf_.get(), &header) ? header.e_machine : 0;
}

std::vector<ElfSegment> ElfFile::segments() const {
  std::vector<ElfSegment> segments;
  const auto file_size = image().size();
  std::size_t count = 0;
  if (::elf_getphdrnum(elf_.get(), &count) != 0) return segments;
  for (std::size_t i = 0; i < count && segments.size() < kMaxSegments; ++i) {
    GElf_Phdr header;
    if (!::gelf_getphdr(elf_.get(), static_cast<int>(i), &header)) break;
    if (header.p_type != PT_LOAD || header.p_offset >= file_size) continue;
    const auto size = std::min<std::uint64_t>(
        {header.p_filesz, file_size - header.p_offset, UINT64_MAX - header.p_vaddr});
    if (size == 0) continue;
    segments.push_back({header.p_vaddr, header.p_offset, size, (header.p_flags & PF_X) != 0});
  }
  return segments;
}

std::span<const std::uint8_t> ElfFile::image() const {
  std::size_t size = 0;
  const char* bytes = ::elf_rawfile(elf_.get(), &size);
  if (!bytes) return {};
  return {reinterpret_cast<const std::uint8_t*>(bytes), size};
}

std::vector<std::uint8_t> ElfFile::build_id() const {
  const void* bytes = nullptr;
  const auto size = ::dwelf_elf_gnu_build_id(elf_.get(), &bytes);
  if (size <= 0 || static_cast<std::size_t>(size) > kMaxBuildId) return {};
  const auto* begin = static_cast<const std::uint8_t*>(bytes);
  return {begin, begin + size};
}

}  // namespace gcause
