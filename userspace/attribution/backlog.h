// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utility>
#include <vector>

#include "util/time.h"

namespace gcause {

/// What one thread has to catch up with after a pause. Chunks that came meanwhile wait for the
/// pause, and then for each other: without the pause each would have been handled when it came. So
/// the time in which the thread works off that queue is the pause's doing, too, and no part of what
/// the gaps would have been.
///
/// A chunk of the queue counts as delivered at its arrival, or, where the thread would have been at
/// work on one that came before, when it would have been done with that.
class Backlog {
 public:
  /// The chunks of a thread in the order of their deliveries.
  struct Delivered {
    Ns arrival;
    Ns delivery;
    Ns paused;         ///< |P ∩ [arrival, delivery]|: how long pauses held it back
    Ns paused_before;  ///< |P ∩ [delivery of the chunk before, delivery]|
  };

  /// When this chunk would have been delivered without the pauses: at the latest delivery - paused.
  Ns but_for(const Delivered& chunk);

  /// The next chunk has nothing to do with what came before: when it arrived is not known.
  void forget() { *this = Backlog(); }

 private:
  Ns free_at(Ns arrival) const;

  bool open_ = false;  ///< a pause was, and the thread has not caught up
  bool has_last_ = false;
  Ns last_delivery_ = 0;
  Ns last_but_for_ = 0;
  std::vector<std::pair<Ns, Ns>> work_;  ///< when the chunks of the queue would have been worked on
};

}  // namespace gcause
