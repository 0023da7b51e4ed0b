// SPDX-License-Identifier: Apache-2.0
#include "target/function_table.h"

#include <dwarf.h>
#include <elf.h>
#include <elfutils/libdw.h>
#include <gelf.h>

#include <algorithm>
#include <cstring>

namespace gcause {
namespace {

// As in the Linux Standard Base and libgcc's unwind-dw2-fde.h: how a pointer is written, and from
// where it counts.
constexpr std::uint8_t kFormat = 0x0f;
constexpr std::uint8_t kUnsignedFormat = 0x07;
constexpr std::uint8_t kFrom = 0x70;
constexpr std::uint8_t kIndirect = 0x80;

constexpr std::size_t kMaxEntries = 4'000'000;  // of 8 bytes and more each

/// Reads numbers off a span; after the first that is not there, nothing is.
class Cursor {
 public:
  explicit Cursor(std::span<const std::uint8_t> bytes) : bytes_(bytes) {}

  bool good() const { return good_; }
  std::span<const std::uint8_t> rest() const { return bytes_.subspan(at_); }
  std::size_t at() const { return at_; }

  template <typename T>
  T take() {
    T value = 0;
    if (bytes_.size() - at_ < sizeof value) {
      good_ = false;
      return 0;
    }
    std::memcpy(&value, bytes_.data() + at_, sizeof value);
    at_ += sizeof value;
    return value;
  }

  std::uint64_t uleb() {
    std::uint64_t value = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = take<std::uint8_t>();
      if (!good_) return 0;
      value |= std::uint64_t{byte & 0x7fu} << shift;
      if (!(byte & 0x80)) return value;
    }
    good_ = false;
    return 0;
  }

  void skip(std::uint64_t count) {
    if (count > bytes_.size() - at_) {
      good_ = false;
    } else {
      at_ += count;
    }
  }

  /// A pointer in one of the fixed formats; `here` is the address of the cursor's first byte.
  std::uint64_t pointer(std::uint8_t encoding, std::uint64_t here, std::uint64_t data_base) {
    std::uint64_t base = 0;
    if (encoding & kIndirect) good_ = false;
    switch (encoding & kFrom) {
      case DW_EH_PE_absptr:
        break;
      case DW_EH_PE_pcrel:
        base = here + at_;
        break;
      case DW_EH_PE_datarel:
        base = data_base;
        break;
      default:
        good_ = false;
    }
    return base + fixed(encoding);
  }

  std::uint64_t fixed(std::uint8_t encoding) {
    switch (encoding & kFormat) {
      case DW_EH_PE_absptr:
      case DW_EH_PE_udata8:
      case DW_EH_PE_sdata8:
        return take<std::uint64_t>();
      case DW_EH_PE_udata4:
        return take<std::uint32_t>();
      case DW_EH_PE_sdata4:
        return static_cast<std::uint64_t>(std::int64_t{take<std::int32_t>()});
      case DW_EH_PE_udata2:
        return take<std::uint16_t>();
      case DW_EH_PE_sdata2:
        return static_cast<std::uint64_t>(std::int64_t{take<std::int16_t>()});
      default:
        good_ = false;
        return 0;
    }
  }

 private:
  std::span<const std::uint8_t> bytes_;
  std::size_t at_ = 0;
  bool good_ = true;
};

/// How the FDEs of a CIE write addresses: the 'R' of its augmentation.
std::optional<std::uint8_t> address_encoding(const Dwarf_CIE& cie) {
  std::uint8_t encoding = DW_EH_PE_absptr;
  const char* augmentation = cie.augmentation;
  if (*augmentation == '\0') return encoding;
  if (*augmentation++ != 'z') return std::nullopt;
  Cursor data({cie.augmentation_data, cie.augmentation_data_size});
  for (; *augmentation; ++augmentation) {
    switch (*augmentation) {
      case 'R':
        encoding = data.take<std::uint8_t>();
        break;
      case 'L':
        data.skip(1);
        break;
      case 'P':
        data.fixed(data.take<std::uint8_t>());
        break;
      case 'S':  // a signal frame
      case 'B':  // aarch64: return addresses signed with the B key
      case 'G':  // aarch64: tagged stack
        break;
      default:
        return std::nullopt;
    }
  }
  return data.good() ? std::optional(encoding) : std::nullopt;
}

/// The one program header of .eh_frame_hdr.
std::optional<std::uint64_t> header_address(Elf* elf) {
  std::size_t count = 0;
  if (::elf_getphdrnum(elf, &count) != 0) return std::nullopt;
  for (std::size_t i = 0; i < count; ++i) {
    GElf_Phdr header;
    if (!::gelf_getphdr(elf, static_cast<int>(i), &header)) break;
    if (header.p_type == PT_GNU_EH_FRAME) return header.p_vaddr;
  }
  return std::nullopt;
}

/// Whether an instruction moves the frame or saves a register: what an entry has not done yet.
bool sets_up_frame(std::uint8_t instruction) {
  if ((instruction & 0xc0) == DW_CFA_offset) return true;
  switch (instruction) {
    case DW_CFA_offset_extended:
    case DW_CFA_remember_state:
    case DW_CFA_restore_state:
    case DW_CFA_def_cfa:
    case DW_CFA_def_cfa_register:
    case DW_CFA_def_cfa_offset:
    case DW_CFA_def_cfa_expression:
    case DW_CFA_expression:
    case DW_CFA_offset_extended_sf:
    case DW_CFA_def_cfa_sf:
    case DW_CFA_def_cfa_offset_sf:
    case DW_CFA_val_offset:
    case DW_CFA_val_expression:
      return true;
    default:
      return false;
  }
}

}  // namespace

std::optional<FunctionTable> FunctionTable::read(const ElfFile& elf, const CodeImage& image,
                                                 std::string& why) {
  const auto at = header_address(elf.handle());
  if (!at) {
    why = "it has no table of its functions (.eh_frame_hdr)";
    return std::nullopt;
  }
  why = "its table of functions (.eh_frame_hdr) is not sound";
  Cursor header(image.from(*at));
  const auto version = header.take<std::uint8_t>();
  const auto frame_encoding = header.take<std::uint8_t>();
  const auto count_encoding = header.take<std::uint8_t>();
  const auto table_encoding = header.take<std::uint8_t>();
  header.pointer(frame_encoding, *at, *at);
  const auto count = header.fixed(count_encoding);
  const bool wide = (table_encoding & kFormat) == DW_EH_PE_sdata8;
  const bool narrow = (table_encoding & kFormat) == DW_EH_PE_sdata4;
  if (!header.good() || version != 1 || (!wide && !narrow) || count == 0 || count > kMaxEntries ||
      count > header.rest().size() / (wide ? 16 : 8)) {
    return std::nullopt;
  }
  FunctionTable table(image);
  table.entries_.reserve(count);
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto begin = header.pointer(table_encoding, *at, *at);
    const auto description = header.pointer(table_encoding, *at, *at);
    if (!header.good() || (i > 0 && begin < table.entries_.back().begin)) return std::nullopt;
    table.entries_.push_back({begin, description});
  }
  why.clear();
  return table;
}

const FunctionTable::Entry* FunctionTable::entry_at_or_before(std::uint64_t address) const {
  const auto after =
      std::upper_bound(entries_.begin(), entries_.end(), address,
                       [](std::uint64_t a, const Entry& entry) { return a < entry.begin; });
  return after == entries_.begin() ? nullptr : &*std::prev(after);
}

std::optional<FunctionTable::Description> FunctionTable::describe(const Entry& entry) const {
  for (const auto& segment : image_->segments()) {
    if (entry.description < segment.address ||
        entry.description - segment.address >= segment.bytes.size()) {
      continue;
    }
    // Offsets count from the segment, as the file may have several .eh_frame (a post-link optimizer
    // leaves the first in place) and no section headers.
    Elf_Data data = {};
    data.d_buf = const_cast<std::uint8_t*>(segment.bytes.data());
    data.d_type = ELF_T_BYTE;
    data.d_size = segment.bytes.size();
    unsigned char ident[EI_NIDENT] = {ELFMAG0,    ELFMAG1,     ELFMAG2,   ELFMAG3,
                                      ELFCLASS64, ELFDATA2LSB, EV_CURRENT};
    Dwarf_CFI_Entry fde, cie;
    Dwarf_Off next = 0;
    if (::dwarf_next_cfi(ident, &data, true, entry.description - segment.address, &next, &fde) !=
            0 ||
        dwarf_cfi_cie_p(&fde) ||
        ::dwarf_next_cfi(ident, &data, true, fde.fde.CIE_pointer, &next, &cie) != 0 ||
        !dwarf_cfi_cie_p(&cie)) {
      return std::nullopt;
    }
    const auto encoding = address_encoding(cie.cie);
    if (!encoding) return std::nullopt;
    Cursor body({fde.fde.start, static_cast<std::size_t>(fde.fde.end - fde.fde.start)});
    const auto here =
        segment.address + static_cast<std::uint64_t>(fde.fde.start - segment.bytes.data());
    const auto begin = body.pointer(*encoding, here, 0);
    const auto size = body.fixed(*encoding & kUnsignedFormat);
    if (cie.cie.augmentation[0] == 'z') body.skip(body.uleb());
    if (!body.good() || begin != entry.begin || size > UINT64_MAX - begin) return std::nullopt;
    return Description{{begin, begin + size}, body.rest()};
  }
  return std::nullopt;
}

std::optional<CodeRange> FunctionTable::containing(std::uint64_t address) const {
  const auto* entry = entry_at_or_before(address);
  if (!entry) return std::nullopt;
  const auto description = describe(*entry);
  if (!description || !description->range.contains(address)) return std::nullopt;
  return description->range;
}

CodeRange FunctionTable::between_begins(std::uint64_t address) const {
  const auto after =
      std::upper_bound(entries_.begin(), entries_.end(), address,
                       [](std::uint64_t a, const Entry& entry) { return a < entry.begin; });
  return {after == entries_.begin() ? 0 : std::prev(after)->begin,
          after == entries_.end() ? UINT64_MAX : after->begin};
}

bool FunctionTable::begins_in_mid_function(std::uint64_t begin) const {
  const auto* entry = entry_at_or_before(begin);
  if (!entry || entry->begin != begin) return false;
  const auto description = describe(*entry);
  // What comes first counts: before the code has moved on, an entry says nothing of the kind.
  return description && !description->instructions.empty() &&
         sets_up_frame(description->instructions.front());
}

}  // namespace gcause
