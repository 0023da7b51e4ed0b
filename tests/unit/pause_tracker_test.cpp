// SPDX-License-Identifier: Apache-2.0
#include "pause/pause_tracker.h"

#include <catch2/catch_test_macros.hpp>
#include <vector>

namespace gcause {
namespace {

struct Timeline : TimelineConsumer {
  std::vector<TimelineEvent> events;
  void consume(const TimelineEvent& event) override { events.push_back(event); }

  const PauseEnded& ended(std::size_t i) const { return std::get<PauseEnded>(events.at(i)); }
  const PauseBegan& began(std::size_t i) const { return std::get<PauseBegan>(events.at(i)); }
};

CollectionEnd collection_end(Ns begin, Ns end, std::uint32_t tid) {
  CollectionEnd event{};
  event.begin = begin;
  event.end = end;
  event.pid = 1;
  event.tid = tid;
  return event;
}

TEST_CASE("a collection carries all that is known of it") {
  Timeline timeline;
  PauseTracker tracker(timeline);
  tracker.begin({10, 1, 2});
  tracker.trigger({20, 1, 2, "app.py", 7, "work", true});
  auto end = collection_end(10, 20, 2);
  end.generation = 2;
  end.collected = 5;
  end.uncollectable = 1;
  end.interpreter = 3;
  end.reason = CollectionReason::shutdown;
  tracker.end(end);
  REQUIRE(timeline.events.size() == 2);
  const auto& pause = timeline.ended(1);
  CHECK(pause.reason == PauseReason::shutdown);
  CHECK(pause.interpreter == 3);
  CHECK(pause.uncollectable == 1);
  REQUIRE(pause.trigger);
  CHECK(pause.trigger->file == "app.py");
  CHECK(pause.trigger->line == 7);
  CHECK(pause.trigger->function == "work");
}

TEST_CASE("a trigger belongs to one collection of its thread") {
  Timeline timeline;
  PauseTracker tracker(timeline);
  // Of a collection whose begin was not seen.
  tracker.trigger({5, 1, 2, "app.py", 7, "work", true});
  tracker.begin({10, 1, 2});
  tracker.begin({11, 1, 3});
  tracker.trigger({20, 1, 2, "app.py", 8, "work", true});
  tracker.end(collection_end(10, 20, 2));
  tracker.end(collection_end(11, 21, 3));
  tracker.begin({30, 1, 2});
  tracker.trigger({40, 1, 2, "app.py", 0, "work", false});
  tracker.end(collection_end(30, 40, 2));
  CHECK(timeline.ended(2).trigger->line == 8);
  CHECK_FALSE(timeline.ended(3).trigger);
  CHECK_FALSE(timeline.ended(5).trigger);
}

TEST_CASE("the worlds that a collection stops are parts of its pause") {
  Timeline timeline;
  PauseTracker tracker(timeline);
  tracker.begin({10, 1, 2});
  tracker.world_stopping({12, 1, 2, true});
  tracker.world_started({12, 15, 1, 2, true, 3, 0});
  tracker.world_stopping({16, 1, 2, true});
  tracker.world_started({16, 18, 1, 2, true, 2, 0});
  tracker.end(collection_end(10, 20, 2));
  REQUIRE(timeline.events.size() == 2);
  const auto& pause = timeline.ended(1);
  CHECK(pause.kind == PauseKind::gc);
  REQUIRE(pause.world_stops.size() == 2);
  CHECK(pause.world_stops[0].begin == 12);
  CHECK(pause.world_stops[0].end == 15);
  CHECK(pause.world_stops[1].end == 18);
}

TEST_CASE("a world stopped outside of a collection is a pause of its own") {
  Timeline timeline;
  PauseTracker tracker(timeline);
  tracker.world_stopping({12, 1, 2, false});
  tracker.world_started({12, 15, 1, 2, false, 3, 1});
  REQUIRE(timeline.events.size() == 2);
  CHECK(timeline.began(0).kind == PauseKind::stop_the_world);
  const auto& pause = timeline.ended(1);
  CHECK(pause.kind == PauseKind::stop_the_world);
  CHECK(pause.begin == 12);
  CHECK(pause.end == 15);
  CHECK(pause.cpu == 3);
  CHECK(pause.interpreter == 1);
  CHECK_FALSE(pause.generation);
  CHECK_FALSE(pause.reason);
  CHECK(pause.id != 0);
}

TEST_CASE("what is open when records are lost or the process ends was no pause") {
  Timeline timeline;
  PauseTracker tracker(timeline);
  tracker.begin({10, 1, 2});
  tracker.world_stopping({12, 1, 3, false});
  tracker.records_lost();
  REQUIRE(timeline.events.size() == 4);
  CHECK(timeline.ended(2).id == 0);
  CHECK(timeline.ended(3).id == 0);
  tracker.process_ended(1);
  CHECK(timeline.events.size() == 4);
}

}  // namespace
}  // namespace gcause
