// SPDX-License-Identifier: Apache-2.0
#include "stream/json_array_scan.h"

namespace gcause {
namespace {

constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

}  // namespace

void JsonArrayScan::feed(std::span<const std::byte> bytes) {
  for (const std::byte byte : bytes) {
    if (state_ == State::no_array) return;
    step(static_cast<char>(byte));
  }
}

void JsonArrayScan::step(char c) {
  if (state_ == State::begin || state_ == State::opened) {
    if (is_space(c)) return;
    const bool begin = state_ == State::begin;
    state_ = c != (begin ? '[' : '{') ? State::no_array : begin ? State::opened : State::array;
    if (state_ == State::array) depth_ = 1;
    return;
  }
  if (in_string_) {
    if (escaped_) {
      escaped_ = false;
    } else if (c == '\\') {
      escaped_ = true;
    } else if (c == '"') {
      in_string_ = false;
    }
    return;
  }
  switch (c) {
    case '"':
      in_string_ = true;
      return;
    case '{':
    case '[':
      ++depth_;
      return;
    case '}':
    case ']':
      // The bracket that ends the array is the one without a partner.
      if (depth_ > 0 && --depth_ == 0) ++elements_;
      return;
    default:
      return;
  }
}

}  // namespace gcause
