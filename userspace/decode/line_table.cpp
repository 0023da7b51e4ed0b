// SPDX-License-Identifier: Apache-2.0
#include "decode/line_table.h"

namespace gcause {
namespace {

using Table = std::span<const std::byte>;

std::uint8_t byte_at(Table table, std::size_t i) { return static_cast<std::uint8_t>(table[i]); }
std::int8_t signed_at(Table table, std::size_t i) { return static_cast<std::int8_t>(table[i]); }

/// Pairs of (bytes of code, lines), each saying where the next line begins (3.8, 3.9:
/// Objects/lnotab_notes.txt). The last line goes on to the end.
std::int64_t line_in_lnotab(std::int64_t line, std::int64_t instruction, Table table) {
  std::int64_t address = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    address += byte_at(table, i);
    if (address > instruction) break;
    line += signed_at(table, i + 1);
  }
  return line;
}

/// Pairs of (bytes of code, lines from the range before), where -128 stands for no line (3.10:
/// Objects/lnotab_notes.txt, PEP 626).
std::optional<std::int64_t> line_in_linetable(std::int64_t line, std::int64_t instruction,
                                              Table table) {
  std::int64_t end = 0;
  for (std::size_t i = 0; i + 1 < table.size(); i += 2) {
    const auto delta = signed_at(table, i + 1);
    const bool has_line = delta != -128;
    if (has_line) line += delta;
    end += byte_at(table, i);
    if (instruction < end) return has_line ? std::optional(line) : std::nullopt;
  }
  return std::nullopt;
}

/// A signed number in groups of 6 bits, the lowest first; bit 6 says that another follows, and the
/// lowest bit of the number is its sign. `i` is left behind it.
std::optional<std::int64_t> signed_varint(Table table, std::size_t& i) {
  std::uint64_t value = 0;
  for (unsigned shift = 0; shift < 36 && i < table.size(); shift += 6) {
    const auto byte = byte_at(table, i++);
    value |= static_cast<std::uint64_t>(byte & 63) << shift;
    if (byte & 64) continue;
    const auto magnitude = static_cast<std::int64_t>(value >> 1);
    return value & 1 ? -magnitude : magnitude;
  }
  return std::nullopt;
}

/// Entries of a first byte with bit 7 set, a code in bits 3 to 6 and the number of code units less
/// one in bits 0 to 2, and bytes without bit 7 behind it (from 3.11 on: Objects/locations.md).
std::optional<std::int64_t> line_in_locations(std::int64_t line, std::int64_t instruction,
                                              Table table) {
  constexpr std::int64_t kCodeUnit = 2;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < table.size();) {
    const auto first = byte_at(table, i++);
    if (!(first & 0x80)) return std::nullopt;
    const unsigned code = (first >> 3) & 15;
    if (code == 13 || code == 14) {
      const auto delta = signed_varint(table, i);
      if (!delta) return std::nullopt;
      line += *delta;
    } else if (code >= 10 && code <= 12) {
      line += code - 10;
    }
    end += ((first & 7) + 1) * kCodeUnit;
    if (instruction < end) return code == 15 ? std::nullopt : std::optional(line);
    while (i < table.size() && !(byte_at(table, i) & 0x80)) ++i;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::int64_t> line_of(line_table kind, std::int64_t first_line,
                                    std::int64_t instruction, Table table) {
  // A frame that has not begun stands before its first instruction.
  if (instruction < 0) return first_line;
  switch (kind) {
    case LINES_NOT_KNOWN:
      return std::nullopt;
    case LINES_LNOTAB:
      return line_in_lnotab(first_line, instruction, table);
    case LINES_LINETABLE:
      return line_in_linetable(first_line, instruction, table);
    case LINES_LOCATIONS:
      return line_in_locations(first_line, instruction, table);
  }
  return std::nullopt;
}

}  // namespace gcause
