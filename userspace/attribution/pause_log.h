// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <unordered_map>
#include <vector>

#include "recording/timeline.h"
#include "util/time.h"

namespace gcause {

/// The pauses of one process: which are open, whom they stop, and how much of an interval they
/// cover.
///
/// A pause stops the thread that it runs in for all of its length. It stops other threads
/// - of the same interpreter, or of one under the same lock; and those of which that is not known;
/// - for all of its length under an interpreter lock, and in a free-threaded build in the windows
///   in which the world stood still.
class PauseLog {
 public:
  struct Pause {
    Ns begin;
    Ns end;
    std::uint64_t id;
    std::uint32_t tid = 0;                         ///< the thread it ran in
    std::optional<std::int64_t> interpreter = {};  ///< that it ran in
    std::vector<WorldStop> world_stops = {};       ///< of the other threads; empty: all of it
    std::optional<Ns> cpu = {};
  };

  void open(std::uint32_t tid, Ns begin) { open_[tid] = begin; }

  /// The pause of this thread is over and was none.
  void cancel(std::uint32_t tid) { open_.erase(tid); }

  /// The pause of `pause.tid` is over. Pauses are added in the order of their ends.
  void close(Pause pause);

  /// Whose lock guards this interpreter: its own number, or that of one it shares with.
  void set_lock(std::int64_t interpreter, std::int64_t lock) { locks_[interpreter] = lock; }

  /// The interpreter that a thread runs in from now on, as far as it is known.
  void set_interpreter(std::uint32_t tid, std::optional<std::int64_t> interpreter);

  /// When a thread that wants to go on at `from` can, as far as the pauses of other threads let it:
  /// `from`, or the end of the last of those that stop it and follow on each other from there, the
  /// first of which began before `from`. Nothing while one that may do so is still open.
  std::optional<Ns> free_at(std::uint32_t tid, Ns from) const;

  /// Whether every pause that had begun by `time` is over, so that all is known up to then.
  bool settled(Ns time) const;

  /// |P ∩ [from, to]|: how long finished pauses stop the thread in the interval, each moment
  /// counted once, ns.
  Ns covered(std::uint32_t tid, Ns from, Ns to) const;

  /// How long one pause stops the thread in the interval, ns.
  Ns stopped_by(const Pause& pause, std::uint32_t tid, Ns from, Ns to) const;

  /// Calls `visit` with each finished pause whose begin and end enclose more than nothing of
  /// [from, to], whomever it stops, in the order of their ends.
  void for_each_in(Ns from, Ns to, const std::function<void(const Pause&)>& visit) const;

  /// Forgets pauses that ended at or before this time.
  void forget_before(Ns time);

  std::size_t size() const { return pauses_.size(); }

 private:
  bool stops(const Pause& pause, std::uint32_t tid) const;
  void add_stops(const Pause& pause, std::uint32_t tid, Ns from, Ns to,
                 std::vector<WorldStop>& stops) const;

  std::map<std::uint32_t, Ns> open_;
  std::deque<Pause> pauses_;                                      ///< by end
  std::unordered_map<std::uint32_t, std::int64_t> interpreters_;  ///< by thread
  std::unordered_map<std::int64_t, std::int64_t> locks_;          ///< by interpreter
};

/// Length of the intersection of two intervals, ns; 0 if they do not meet.
inline Ns intersection(Ns a_from, Ns a_to, Ns b_from, Ns b_to) {
  const Ns from = a_from > b_from ? a_from : b_from;
  const Ns to = a_to < b_to ? a_to : b_to;
  return to > from ? to - from : 0;
}

}  // namespace gcause
