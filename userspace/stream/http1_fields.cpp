// SPDX-License-Identifier: Apache-2.0
#include "stream/http1_fields.h"

#include <algorithm>

namespace gcause {
namespace {

constexpr std::size_t kMaxMediaType = 255;  // RFC 6838, 4.2: 127 characters on each side

constexpr std::size_t kNone = std::string_view::npos;

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string lowered(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(), lower);
  return result;
}

/// Calls `use(element)` for the elements of a comma-separated list, trimmed, without empty ones.
template <typename Use>
void for_each_element(std::string_view list, Use use) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view element = trimmed(list.substr(0, comma));
    if (!element.empty()) use(element);
    if (comma == kNone) return;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace

bool is_all_visible(std::string_view text) {
  return std::all_of(text.begin(), text.end(), is_visible);
}

std::string_view without_cr(std::string_view line) {
  if (line.ends_with('\r')) line.remove_suffix(1);
  return line;
}

std::optional<Field> parse_field(std::string_view line) {
  const std::size_t colon = line.find(':');
  if (colon == kNone || colon == 0 || is_blank(line.front())) return std::nullopt;
  return Field{lowered(trimmed(line.substr(0, colon))), trimmed(line.substr(colon + 1))};
}

void append_element(std::string& list, std::string_view element) {
  if (!list.empty()) list += ", ";
  list += element;
}

void BodyFields::add(const Field& field) {
  const std::string value = lowered(field.value);
  if (field.name == "content-type") {
    media_type = trimmed(std::string_view(value).substr(0, value.find(';')));
    if (media_type.size() > kMaxMediaType || !is_all_visible(media_type)) media_type.clear();
  } else if (field.name == "content-length") {
    for_each_element(value, [&](std::string_view element) { add_length(element); });
  } else if (field.name == "content-encoding") {
    for_each_element(value, [&](std::string_view coding) {
      if (coding != "identity") append_element(content_codings, coding);
    });
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
