// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <unordered_map>

#include "util/time.h"

namespace gcause {

/// How long threads had ever been runnable without a CPU, as the scheduler's sums tell at their
/// reads and waits.
class RunDelays {
 public:
  /// The sum of this thread at this time, us, modulo 2^32. What is not newer than the last is left
  /// out: the chunks of one read have one sum.
  void add(std::uint32_t tid, Ns at, std::uint32_t sum);

  /// A sum, and when it was read.
  struct Sample {
    Ns at;
    std::uint32_t sum;
  };

  /// The newest sample of the thread at or before `at`, as far as it is kept: the last 1024.
  std::optional<Sample> before(std::uint32_t tid, Ns at) const;

  /// Time between two sums of one thread, ns. They are less than 71 minutes of waiting apart.
  static Ns between(std::uint32_t from, std::uint32_t to);

 private:
  std::unordered_map<std::uint32_t, std::deque<Sample>> samples_;  ///< by thread
};

}  // namespace gcause
