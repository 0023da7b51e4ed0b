// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>

#include "util/time.h"

namespace gcause {

/// The pauses of one process: which are open, and how much of an interval they cover.
class PauseLog {
 public:
  struct Interval {
    Ns begin;
    Ns end;
    std::uint64_t id;       ///< 0 where it stands for a union
    std::uint32_t tid = 0;  ///< the thread it ran in
  };

  void open(std::uint32_t tid, Ns begin) { open_[tid] = begin; }

  /// The pause of this thread is over and was none.
  void cancel(std::uint32_t tid) { open_.erase(tid); }

  /// The pause of `pause.tid` is over. Pauses are added in the order of their ends.
  void close(const Interval& pause);

  /// When a thread that wants to go on at `from` can, as far as the pauses of other threads let it:
  /// `from`, or the end of the last of the pauses that follow on each other from there. Nothing
  /// while one of them is still open.
  std::optional<Ns> free_at(std::uint32_t tid, Ns from) const;

  /// Whether every pause that had begun by `time` is over, so that all is known up to then.
  bool settled(Ns time) const;

  /// |P ∩ [from, to]|: how much of the interval finished pauses cover, ns.
  Ns covered(Ns from, Ns to) const;

  /// Calls `visit` with each finished pause that overlaps [from, to] by more than nothing, in the
  /// order of their ends.
  void for_each_in(Ns from, Ns to, const std::function<void(const Interval&)>& visit) const;

  /// Forgets pauses that ended at or before this time.
  void forget_before(Ns time);

  std::size_t size() const { return pauses_.size(); }

 private:
  std::map<std::uint32_t, Ns> open_;
  std::deque<Interval> pauses_;  ///< by end
  std::deque<Interval> merged_;  ///< the union, disjoint, by time
};

/// Length of the intersection of two intervals, ns; 0 if they do not meet.
inline Ns intersection(Ns a_from, Ns a_to, Ns b_from, Ns b_to) {
  const Ns from = a_from > b_from ? a_from : b_from;
  const Ns to = a_to < b_to ? a_to : b_to;
  return to > from ? to - from : 0;
}

}  // namespace gcause
