// SPDX-License-Identifier: Apache-2.0
#include "decode/trigger.h"

#include <cstring>

#include "decode/kernel_abi.h"
#include "decode/line_table.h"

namespace gcause {
namespace {

void append_utf8(std::string& out, std::uint32_t point) {
  const bool surrogate = point >= 0xd800 && point <= 0xdfff;
  if (surrogate || point > 0x10ffff) point = 0xfffd;  // replacement character
  const auto put = [&](std::uint32_t byte) { out += static_cast<char>(byte); };
  if (point < 0x80) {
    put(point);
  } else if (point < 0x800) {
    put(0xc0 | point >> 6);
    put(0x80 | (point & 63));
  } else if (point < 0x10000) {
    put(0xe0 | point >> 12);
    put(0x80 | (point >> 6 & 63));
    put(0x80 | (point & 63));
  } else {
    put(0xf0 | point >> 18);
    put(0x80 | (point >> 12 & 63));
    put(0x80 | (point >> 6 & 63));
    put(0x80 | (point & 63));
  }
}

/// The text of a Python string of `kind` bytes a character (PEP 393), in UTF-8.
std::string text_of(std::span<const std::byte> bytes, unsigned kind) {
  const std::size_t width = kind == 2 || kind == 4 ? kind : 1;
  std::string text;
  for (std::size_t i = 0; i + width <= bytes.size(); i += width) {
    std::uint32_t point = 0;
    std::memcpy(&point, bytes.data() + i, width);
    append_utf8(text, point);
  }
  return text;
}

}  // namespace

std::optional<TriggerSeen> decode_trigger(std::span<const std::byte> bytes) {
  trigger_record record;
  if (bytes.size() < sizeof record) return std::nullopt;
  std::memcpy(&record, bytes.data(), sizeof record);
  auto rest = bytes.subspan(sizeof record);
  if (std::size_t{record.file_length} + record.function_length + record.lines_length >
      rest.size()) {
    return std::nullopt;
  }
  const auto take = [&](std::size_t length) {
    const auto taken = rest.first(length);
    rest = rest.subspan(length);
    return taken;
  };
  TriggerSeen seen{};
  seen.at = static_cast<Ns>(record.header.ns);
  seen.pid = record.header.pid;
  seen.tid = record.header.tid;
  seen.file = text_of(take(record.file_length), record.file_kind);
  seen.function = text_of(take(record.function_length), record.function_kind);
  const auto line = line_of(static_cast<line_table>(record.line_table), record.first_line,
                            record.instruction, take(record.lines_length));
  seen.line = line.value_or(0);
  seen.sure = !seen.file.empty() && !seen.function.empty() && seen.line > 0;
  return seen;
}

}  // namespace gcause
