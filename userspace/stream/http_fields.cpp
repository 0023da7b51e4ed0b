// SPDX-License-Identifier: Apache-2.0
#include "stream/http_fields.h"

#include <algorithm>

namespace gcause {
namespace {

constexpr std::size_t kMaxHost = 255;
constexpr std::size_t kMaxMediaType = 255;  // RFC 6838, 4.2: 127 characters on each side

bool is_all_visible(std::string_view text) { return std::ranges::all_of(text, is_visible); }

}  // namespace

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && is_blank(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back())) text.remove_suffix(1);
  return text;
}

std::string lowered(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), lower);
  return result;
}

void append_element(std::string& list, std::string_view element) {
  if (!list.empty()) list += ", ";
  list += element;
}

std::string media_type_of(std::string_view content_type) {
  const std::string_view type = trimmed(content_type.substr(0, content_type.find(';')));
  return type.size() <= kMaxMediaType && is_all_visible(type) ? lowered(type) : std::string();
}

void append_codings(std::string& list, std::string_view content_encoding) {
  for_each_element(lowered(content_encoding), [&](std::string_view coding) {
    if (coding != "identity") append_element(list, coding);
  });
}

bool is_usable_host(std::string_view host) {
  return !host.empty() && host.size() <= kMaxHost && is_all_visible(host);
}

}  // namespace gcause
