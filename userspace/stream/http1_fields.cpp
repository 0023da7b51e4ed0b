// SPDX-License-Identifier: Apache-2.0
#include "stream/http1_fields.h"

namespace gcause {

std::string_view without_cr(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<Field> parse_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon == 0 || is_blank(line.front())) return std::nullopt;
  return Field{lowered(trimmed(line.substr(0, colon))), trimmed(line.substr(colon + 1))};
}

void BodyFields::add(const Field& field) {
  const std::string value = lowered(field.value);
  if (field.name == "content-type") {
    media_type = media_type_of(field.value);
  } else if (field.name == "content-length") {
    for_each_element(value, [&](std::string_view element) { add_length(element); });
  } else if (field.name == "content-encoding") {
    append_codings(content_codings, field.value);
  } else if (field.name == "transfer-encoding") {
    for_each_element(value, [&](std::string_view coding) {
      if (coding == "identity") return;  // of RFC 2616; means none
      has_transfer_encoding = true;
      chunked_last = coding == "chunked";
      if (!chunked_last) append_element(transfer_codings, coding);
    });
  } else if (field.name == "connection") {
    for_each_element(value, [&](std::string_view option) {
      close = close || option == "close";
      keep_alive = keep_alive || option == "keep-alive";
    });
  } else if (field.name == "upgrade") {
    for_each_element(value, [&](std::string_view protocol) { append_element(upgrade, protocol); });
  }
}

/// RFC 9112, 6.3: a length that is no number, or two that differ, cannot be recovered from.
void BodyFields::add_length(std::string_view digits) {
  std::uint64_t value = 0;
  for (const char c : digits) {
    if (!is_digit(c) || value > (UINT64_MAX >> 1) / 10 - 1) {
      bad_length = true;
      return;
    }
    value = value * 10 + static_cast<std::uint64_t>(c - '0');
  }
  bad_length = bad_length || (length && *length != value);
  length = value;
}

}  // namespace gcause
