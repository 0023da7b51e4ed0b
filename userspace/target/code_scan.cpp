// SPDX-License-Identifier: Apache-2.0
#include "target/code_scan.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <span>

namespace gcause {
namespace {

using Bytes = std::span<const std::uint8_t>;

constexpr std::size_t kMaxBranches = 4'000'000;  // a program of 100 MB has half of it
constexpr std::size_t kMaxReferences = 64;       // the banner has one or two
constexpr std::size_t kMaxPair = 16;             // instructions between ADRP and its ADD

template <typename T>
T load(const std::uint8_t* at) {
  T value;
  std::memcpy(&value, at, sizeof value);
  return value;
}

/// Moves by a signed displacement, around the end of the address space if it must.
std::uint64_t moved(std::uint64_t address, std::int64_t by) {
  return address + static_cast<std::uint64_t>(by);
}

/// The lowest `bits` bits of a word as a signed number.
std::int64_t sign_extended(std::uint64_t word, unsigned bits) {
  return static_cast<std::int64_t>(word << (64 - bits)) >> (64 - bits);
}

// x86-64: Intel's manual, volume 2, LEA, MOV, CALL, JMP, Jcc.

/// lea disp32(%rip), %r64: REX.W (with or without R), 8d, mod 00, r/m 101.
void x86_relative_references(const CodeImage::Segment& segment, std::uint64_t data,
                             std::vector<std::uint64_t>& found) {
  const auto code = segment.bytes;
  for (std::size_t at = 1; at + 6 <= code.size() && found.size() < kMaxReferences; ++at) {
    const void* next = std::memchr(code.data() + at, 0x8d, code.size() - 5 - at);
    if (!next) return;
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(next) - code.data());
    if ((code[at - 1] & 0xfb) != 0x48 || (code[at + 1] & 0xc7) != 0x05) continue;
    const auto end = segment.address + at + 6;
    if (moved(end, load<std::int32_t>(&code[at + 2])) == data) {
      found.push_back(segment.address + at - 1);
    }
  }
}

/// mov $imm32, %r32 (b8 to bf), mov $simm32, %r64 (48 c7 /0), push $imm32 (68).
void x86_absolute_references(const CodeImage::Segment& segment, std::uint64_t data,
                             std::vector<std::uint64_t>& found) {
  const auto code = segment.bytes;
  const auto word = static_cast<std::uint32_t>(data);
  std::size_t at = 3;
  while (at + sizeof word <= code.size() && found.size() < kMaxReferences) {
    const void* next = ::memmem(code.data() + at, code.size() - at, &word, sizeof word);
    if (!next) return;
    at = static_cast<std::size_t>(static_cast<const std::uint8_t*>(next) - code.data());
    const auto before = code[at - 1];
    const bool moves = (before & 0xf8) == 0xb8 || before == 0x68 ||
                       (code[at - 3] == 0x48 && code[at - 2] == 0xc7 && (before & 0xf8) == 0xc0);
    if (moves) found.push_back(segment.address + at - 1);
    ++at;
  }
}

/// What a byte can be the beginning of.
enum class Opening : std::uint8_t { none, call, jump, two_bytes };

constexpr auto kOpenings = [] {
  std::array<Opening, 256> openings{};
  openings[0xe8] = Opening::call;
  openings[0xe9] = Opening::jump;
  openings[0x0f] = Opening::two_bytes;
  return openings;
}();

/// Calls `take` with source, target and whether it is a call.
template <typename Take>
void x86_branches(std::uint64_t address, Bytes code, Take take) {
  if (code.size() < 6) return;
  const std::size_t last = code.size() - 6;
  for (std::size_t at = 0; at <= last; ++at) {
    const auto opening = kOpenings[code[at]];
    if (opening == Opening::none) continue;
    std::size_t operand = at + 1;
    if (opening == Opening::two_bytes) {
      if ((code[at + 1] & 0xf0) != 0x80) continue;
      operand = at + 2;
    }
    const auto target = moved(address + operand + 4, load<std::int32_t>(&code[operand]));
    take(address + at, target, opening == Opening::call);
  }
  // A call or jump of five bytes may end the segment.
  const auto at = last + 1;
  const auto opening = kOpenings[code[at]];
  if (opening == Opening::call || opening == Opening::jump) {
    take(address + at, moved(address + at + 5, load<std::int32_t>(&code[at + 1])),
         opening == Opening::call);
  }
}

// aarch64: Arm's architecture manual, C6.2: ADR, ADRP, ADD (immediate), B, BL, B.cond, CBZ, TBZ.

std::uint64_t aarch64_page_offset(std::uint32_t word) {
  return std::uint64_t{(word >> 5 & 0x7ffff) << 2 | (word >> 29 & 3)};
}

/// ADR, or ADRP with the ADD that follows on the same register.
void aarch64_references(const CodeImage::Segment& segment, std::uint64_t data,
                        std::vector<std::uint64_t>& found) {
  const auto code = segment.bytes;
  const std::size_t count = code.size() / 4;
  for (std::size_t i = 0; i < count && found.size() < kMaxReferences; ++i) {
    const auto word = load<std::uint32_t>(&code[4 * i]);
    if ((word & 0x1f000000) != 0x10000000) continue;
    const auto here = segment.address + 4 * i;
    const auto offset = sign_extended(aarch64_page_offset(word), 21);
    if (!(word >> 31)) {
      if (moved(here, offset) == data) found.push_back(here);
      continue;
    }
    if (moved(here >> 12, offset) << 12 != (data & ~std::uint64_t{0xfff})) continue;
    for (std::size_t j = i + 1; j < std::min(i + kMaxPair, count); ++j) {
      const auto add = load<std::uint32_t>(&code[4 * j]);
      if ((add & 0xffc00000) == 0x91000000 && (add >> 5 & 31) == (word & 31) &&
          (add >> 10 & 0xfff) == (data & 0xfff)) {
        found.push_back(here);
        break;
      }
    }
  }
}

template <typename Take>
void aarch64_branches(std::uint64_t address, Bytes code, Take take) {
  for (std::size_t at = 0; at + 4 <= code.size(); at += 4) {
    const auto word = load<std::uint32_t>(&code[at]);
    std::int64_t by = 0;
    bool call = false;
    if ((word & 0x7c000000) == 0x14000000) {  // B, BL
      by = sign_extended(word & 0x3ffffff, 26);
      call = (word >> 31) != 0;
    } else if ((word & 0xff000000) == 0x54000000 || (word & 0x7e000000) == 0x34000000) {
      by = sign_extended(word >> 5 & 0x7ffff, 19);  // B.cond, CBZ, CBNZ
    } else if ((word & 0x7e000000) == 0x36000000) {
      by = sign_extended(word >> 5 & 0x3fff, 14);  // TBZ, TBNZ
    } else {
      continue;
    }
    take(address + at, moved(address + at, 4 * by), call);
  }
}

template <typename Take>
void branches(Machine machine, std::uint64_t address, Bytes code, Take take) {
  if (machine == Machine::x86_64) {
    x86_branches(address, code, take);
  } else {
    aarch64_branches(address, code, take);
  }
}

/// The one range that holds all code: a test for most targets that are none.
CodeRange hull_of_code(const CodeImage& image) {
  CodeRange hull{UINT64_MAX, 0};
  for (const auto& segment : image.segments()) {
    if (!segment.executable) continue;
    hull.begin = std::min(hull.begin, segment.address);
    hull.end = std::max(hull.end, segment.address + segment.bytes.size());
  }
  return hull;
}

}  // namespace

std::vector<std::uint64_t> references_to(const CodeImage& image, std::uint64_t data) {
  std::vector<std::uint64_t> found;
  for (const auto& segment : image.segments()) {
    if (!segment.executable) continue;
    if (image.machine() == Machine::aarch64) {
      aarch64_references(segment, data, found);
      continue;
    }
    x86_relative_references(segment, data, found);
    if (image.position_dependent() && data <= INT32_MAX) {
      x86_absolute_references(segment, data, found);
    }
  }
  return found;
}

std::optional<ControlFlow> control_flow_of(const CodeImage& image, const FunctionTable& table,
                                           std::string& why) {
  ControlFlow flow;
  const auto hull = hull_of_code(image);
  for (const auto& segment : image.segments()) {
    if (!segment.executable) continue;
    // What CPython has, so that the lists need not grow.
    flow.called.reserve(flow.called.size() + segment.bytes.size() / 32);
    flow.jumps.reserve(flow.jumps.size() + segment.bytes.size() / 256);
    CodeRange here{segment.address, segment.address};
    branches(image.machine(), segment.address, segment.bytes,
             [&](std::uint64_t source, std::uint64_t target, bool call) {
               if (!hull.contains(target)) return;
               if (call) {
                 if (flow.called.size() <= kMaxBranches) flow.called.push_back(target);
                 return;
               }
               // Most jumps stay where they are, and sources come in order.
               if (source >= here.end) here = table.between_begins(source);
               if (here.contains(target) || flow.jumps.size() > kMaxBranches) return;
               flow.jumps.push_back({source, target, false});
             });
  }
  if (flow.called.size() > kMaxBranches || flow.jumps.size() > kMaxBranches) {
    why = "its code has more branches than any program";
    return std::nullopt;
  }
  return flow;
}

std::vector<Branch> branches_of(const CodeImage& image, const CodeRange& range) {
  std::vector<Branch> found;
  const auto hull = hull_of_code(image);
  auto code = image.from(range.begin);
  code = code.first(std::min<std::uint64_t>(code.size(), range.size()));
  branches(image.machine(), range.begin, code,
           [&](std::uint64_t source, std::uint64_t target, bool call) {
             if (hull.contains(target) && found.size() < kMaxBranches) {
               found.push_back({source, target, call});
             }
           });
  return found;
}

}  // namespace gcause
