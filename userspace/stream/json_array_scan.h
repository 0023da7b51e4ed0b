// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace gcause {

/// Counts the elements of a JSON array of objects, fed cut anywhere, and tells whether what was fed
/// so far ends between two of them. Checks nothing else: it is there to tell an array that is sent
/// element by element from one that is sent in one go and cut by the network. Keeps no bytes.
class JsonArrayScan {
 public:
  void feed(std::span<const std::byte> bytes);

  /// Bytes passed unseen: nothing is counted any more.
  void lose() { state_ = State::no_array; }

  /// This is no array of objects.
  bool hopeless() const { return state_ == State::no_array; }

  std::uint64_t elements() const { return elements_; }

  /// Behind an element, or its comma, or the end of the array.
  bool between_elements() const { return state_ == State::array && depth_ == 0 && elements_ > 0; }

 private:
  enum class State : std::uint8_t {
    begin,
    opened,  ///< behind the bracket
    array,   ///< in or behind the first element
    no_array,
  };

  void step(char c);

  State state_ = State::begin;
  bool in_string_ = false;
  bool escaped_ = false;
  std::uint64_t depth_ = 0;  ///< of brackets and braces that are open inside of the array
  std::uint64_t elements_ = 0;
};

}  // namespace gcause
