// SPDX-License-Identifier: Apache-2.0
#include "stream/mid_body.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

namespace gcause {
namespace {

constexpr std::size_t kLongestSize = 8;  // hexadecimal digits

/// The fields of the WHATWG HTML standard (9.2.6), and the comment.
constexpr std::array<std::string_view, 5> kFields = {"data:", "event:", "id:", "retry:", ":"};

bool begins_with_field(std::string_view text) {
  return std::ranges::any_of(kFields,
                             [&](std::string_view field) { return text.starts_with(field); });
}

/// Whether an event, or a block of comments, is over somewhere in the text.
bool has_blank_line(std::string_view text) {
  return text.find("\n\n") != std::string_view::npos ||
         text.find("\n\r\n") != std::string_view::npos ||
         text.find("\r\r") != std::string_view::npos;
}

/// Whether the text begins with a chunk's size line and an event behind it, and is framed well as
/// far as it goes.
bool begins_chunk(std::string_view text) {
  std::uint64_t size = 0;
  const auto digits =
      std::from_chars(text.data(), text.data() + std::min(text.size(), kLongestSize), size, 16);
  if (digits.ec != std::errc() || size == 0) return false;
  const auto line_end = text.find("\r\n");
  const auto behind_digits = static_cast<std::size_t>(digits.ptr - text.data());
  if (line_end == std::string_view::npos || behind_digits > line_end) return false;
  if (behind_digits != line_end && text[behind_digits] != ';' && text[behind_digits] != ' ') {
    return false;
  }
  const auto body = text.substr(line_end + 2);
  if (!begins_with_field(body)) return false;
  return body.size() <= size || std::string_view("\r\n").starts_with(body.substr(size, 2));
}

}  // namespace

MidBody match_mid_body(std::string_view text) {
  if (begins_with_field(text)) return has_blank_line(text) ? MidBody::plain : MidBody::no;
  if (text.starts_with("\r\n")) text.remove_prefix(2);
  return begins_chunk(text) ? MidBody::chunked : MidBody::no;
}

}  // namespace gcause
