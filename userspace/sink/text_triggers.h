// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "recording/timeline.h"
#include "util/time.h"

namespace gcause {

/// The lines of Python code in which long pauses were started, and how much each cost. Their number
/// is bounded by the code of the program.
class TriggerTable {
 public:
  /// Takes in a pause; one whose trigger is not known is left out.
  void add(const PauseEnded& pause);

  /// The dearest few, the dearest first, under a line that says what they are; empty without any.
  std::string render(std::size_t width, bool color) const;

 private:
  struct Cost {
    std::uint64_t count = 0;
    Ns total = 0;
    Ns longest = 0;
  };

  std::map<std::string, Cost> by_place_;
};

}  // namespace gcause
