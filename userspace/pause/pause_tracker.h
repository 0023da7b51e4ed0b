// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "decode/event.h"
#include "recording/timeline.h"

namespace gcause {

/// Turns collections, as the probes see them, into the pauses of the timeline.
class PauseTracker {
 public:
  explicit PauseTracker(TimelineConsumer& timeline) : timeline_(timeline) {}

  void begin(const CollectionBegin& event);
  void end(const CollectionEnd& event);

  /// Where the collection that ends next on this thread was started.
  void trigger(const TriggerSeen& event);

  /// Inside of a collection a stopped world is a part of that pause, elsewhere a pause of its own.
  void world_stopping(const WorldStopping& event);
  void world_started(const WorldStarted& event);

  /// Ends may be among the lost records: no pause stays open on a guess.
  void records_lost() { cancel_all(0); }

  /// The process is gone, and a pause that it was in with it.
  void process_ended(std::uint32_t pid) { cancel_all(pid); }

 private:
  using Thread = std::pair<std::uint32_t, std::uint32_t>;  ///< pid, tid
  struct Open {
    Ns begin;
    std::vector<WorldStop> world_stops;
    std::optional<Trigger> trigger;
  };

  /// `pid` 0 stands for every process.
  void cancel_all(std::uint32_t pid);

  TimelineConsumer& timeline_;
  std::uint64_t next_id_ = 1;
  std::map<Thread, Open> open_;
};

}  // namespace gcause
