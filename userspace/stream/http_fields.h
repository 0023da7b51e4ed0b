// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace gcause {

// What the fields of a message mean is the same in every version of HTTP (RFC 9110).

constexpr bool is_blank(char c) { return c == ' ' || c == '\t'; }
constexpr bool is_visible(char c) { return c > 0x20 && c < 0x7F; }
constexpr char lower(char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c | 0x20) : c; }

/// Without the blanks at both ends.
std::string_view trimmed(std::string_view text);

/// In lower case, as far as it is ASCII.
std::string lowered(std::string_view text);

/// Adds `element` to a list that is separated by commas.
void append_element(std::string& list, std::string_view element);

/// The media type of a Content-Type field, in lower case and without parameters. Empty if it is
/// longer than 255 bytes or holds anything but visible ASCII.
std::string media_type_of(std::string_view content_type);

/// Adds the codings of a Content-Encoding field to `list`, in lower case; "identity" is none.
void append_codings(std::string& list, std::string_view content_encoding);

/// Whether it can be told as the host of a request: 1 to 255 visible ASCII characters.
bool is_usable_host(std::string_view host);

/// Calls `use(element)` for the elements of a comma-separated list, trimmed, without empty ones.
template <typename Use>
void for_each_element(std::string_view list, Use use) {
  while (!list.empty()) {
    const std::size_t comma = list.find(',');
    const std::string_view element = trimmed(list.substr(0, comma));
    if (!element.empty()) use(element);
    if (comma == std::string_view::npos) return;
    list.remove_prefix(comma + 1);
  }
}

}  // namespace gcause
