// SPDX-License-Identifier: Apache-2.0
#include "pause/pause_tracker.h"

namespace gcause {
namespace {

PauseEnded cancelled(std::uint32_t pid, std::uint32_t tid, Ns begin) {
  PauseEnded ended{};
  ended.pid = pid;
  ended.tid = tid;
  ended.begin = ended.end = begin;
  return ended;
}

std::optional<PauseReason> reason_of(const std::optional<CollectionReason>& reason) {
  if (!reason) return std::nullopt;
  switch (*reason) {
    case CollectionReason::automatic:
      return PauseReason::automatic;
    case CollectionReason::manual:
      return PauseReason::manual;
    case CollectionReason::shutdown:
      return PauseReason::shutdown;
  }
  return std::nullopt;
}

}  // namespace

void PauseTracker::begin(const CollectionBegin& event) {
  open_[{event.pid, event.tid}] = {event.at, {}, {}};
  timeline_.consume(PauseBegan{event.at, event.pid, event.tid, PauseKind::gc});
}

void PauseTracker::end(const CollectionEnd& event) {
  const auto open = open_.extract({event.pid, event.tid});
  if (event.idle) {
    timeline_.consume(cancelled(event.pid, event.tid, event.begin));
    return;
  }
  PauseEnded ended{};
  ended.id = next_id_++;
  ended.pid = event.pid;
  ended.tid = event.tid;
  ended.interpreter = event.interpreter;
  ended.kind = PauseKind::gc;
  ended.generation = event.generation;
  ended.reason = reason_of(event.reason);
  ended.begin = event.begin;
  ended.end = event.end;
  ended.cpu = event.cpu;
  ended.collected = event.collected;
  ended.uncollectable = event.uncollectable;
  if (open) {
    ended.trigger = open.mapped().trigger;
    ended.world_stops = open.mapped().world_stops;
  }
  timeline_.consume(ended);
}

void PauseTracker::trigger(const TriggerSeen& event) {
  const auto open = open_.find({event.pid, event.tid});
  if (open == open_.end() || !event.sure) return;
  open->second.trigger = Trigger{event.file, event.line, event.function};
}

void PauseTracker::world_stopping(const WorldStopping& event) {
  if (event.in_collection) return;
  open_[{event.pid, event.tid}] = {event.at, {}, {}};
  timeline_.consume(PauseBegan{event.at, event.pid, event.tid, PauseKind::stop_the_world});
}

void PauseTracker::world_started(const WorldStarted& event) {
  const auto open = open_.find({event.pid, event.tid});
  if (event.in_collection) {
    if (open != open_.end()) open->second.world_stops.push_back({event.begin, event.end});
    return;
  }
  if (open != open_.end()) open_.erase(open);
  PauseEnded ended{};
  ended.id = next_id_++;
  ended.pid = event.pid;
  ended.tid = event.tid;
  ended.interpreter = event.interpreter;
  ended.kind = PauseKind::stop_the_world;
  ended.begin = event.begin;
  ended.end = event.end;
  ended.cpu = event.cpu;
  timeline_.consume(ended);
}

void PauseTracker::cancel_all(std::uint32_t pid) {
  std::erase_if(open_, [&](const auto& entry) {
    const auto& [key, open] = entry;
    if (pid != 0 && key.first != pid) return false;
    timeline_.consume(cancelled(key.first, key.second, open.begin));
    return true;
  });
}

}  // namespace gcause
