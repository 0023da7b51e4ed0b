// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "stream/http_fields.h"

namespace gcause {

// Header fields as lines of HTTP/1.x (RFC 9112, 5), as far as they rule a body or name a host.

constexpr bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// The value of a hexadecimal digit, or -1.
constexpr int hex_value(char c) {
  if (is_digit(c)) return c - '0';
  const char l = lower(c);
  return l >= 'a' && l <= 'f' ? l - 'a' + 10 : -1;
}

/// `line` without the CR of its line end.
std::string_view without_cr(std::string_view line);

struct Field {
  std::string name;  ///< in lower case
  std::string_view value;
};

/// A header line, or nothing if it has no colon or continues the line before.
std::optional<Field> parse_field(std::string_view line);

/// The fields of a response head that rule its body, put together from all their lines.
struct BodyFields {
  std::string media_type;
  std::string content_codings;
  std::string transfer_codings;  ///< other than chunked and identity
  bool has_transfer_encoding = false;
  bool chunked_last = false;
  bool close = false;
  bool keep_alive = false;
  bool bad_length = false;
  std::optional<std::uint64_t> length;
  std::string upgrade;  ///< protocols that the connection may change to, in lower case

  void add(const Field& field);

 private:
  void add_length(std::string_view digits);
};

}  // namespace gcause
