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

}  // namespace

void PauseTracker::begin(const CollectionBegin& event) {
  open_[{event.pid, event.tid}] = event.at;
  timeline_.consume(PauseBegan{event.at, event.pid, event.tid});
}

void PauseTracker::end(const CollectionEnd& event) {
  open_.erase({event.pid, event.tid});
  if (event.idle) {
    timeline_.consume(cancelled(event.pid, event.tid, event.begin));
    return;
  }
  PauseEnded ended{};
  ended.id = next_id_++;
  ended.pid = event.pid;
  ended.tid = event.tid;
  ended.kind = PauseKind::gc;
  ended.generation = event.generation;
  ended.begin = event.begin;
  ended.end = event.end;
  ended.cpu = event.cpu;
  ended.collected = event.collected;
  timeline_.consume(ended);
}

void PauseTracker::cancel_all(std::uint32_t pid) {
  std::erase_if(open_, [&](const auto& entry) {
    const auto& [key, begin] = entry;
    if (pid != 0 && key.first != pid) return false;
    timeline_.consume(cancelled(key.first, key.second, begin));
    return true;
  });
}

}  // namespace gcause
