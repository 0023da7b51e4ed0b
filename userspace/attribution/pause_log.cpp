// SPDX-License-Identifier: Apache-2.0
#include "attribution/pause_log.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace gcause {
namespace {

void sort_by_begin(std::vector<WorldStop>& stops) {
  std::ranges::sort(stops, {}, &WorldStop::begin);
}

/// Length of the union.
Ns length(std::vector<WorldStop>& stops) {
  sort_by_begin(stops);
  Ns sum = 0;
  Ns end = std::numeric_limits<Ns>::min();
  for (const auto& stop : stops) {
    if (stop.end <= end) continue;
    sum += stop.end - std::max(stop.begin, end);
    end = stop.end;
  }
  return sum;
}

}  // namespace

void PauseLog::close(Pause pause) {
  open_.erase(pause.tid);
  pauses_.push_back(std::move(pause));
}

void PauseLog::set_interpreter(std::uint32_t tid, std::optional<std::int64_t> interpreter) {
  if (interpreter) {
    interpreters_[tid] = *interpreter;
  } else {
    interpreters_.erase(tid);
  }
}

/// Whether the pause stops this thread at all; yes, where it is not known.
bool PauseLog::stops(const Pause& pause, std::uint32_t tid) const {
  if (pause.tid == tid || !pause.interpreter) return true;
  const auto thread = interpreters_.find(tid);
  if (thread == interpreters_.end() || thread->second == *pause.interpreter) return true;
  const auto one = locks_.find(thread->second);
  const auto other = locks_.find(*pause.interpreter);
  return one == locks_.end() || other == locks_.end() || one->second == other->second;
}

/// Appends the parts of [from, to] in which the pause stops the thread.
void PauseLog::add_stops(const Pause& pause, std::uint32_t tid, Ns from, Ns to,
                         std::vector<WorldStop>& stops) const {
  if (!this->stops(pause, tid)) return;
  const auto add = [&](Ns begin, Ns end) {
    begin = std::max({begin, pause.begin, from});
    end = std::min({end, pause.end, to});
    if (begin < end) stops.push_back({begin, end});
  };
  if (pause.tid == tid || pause.world_stops.empty()) return add(pause.begin, pause.end);
  for (const auto& stop : pause.world_stops) add(stop.begin, stop.end);
}

std::optional<Ns> PauseLog::free_at(std::uint32_t tid, Ns from) const {
  std::vector<WorldStop> stops;
  for (auto it = pauses_.rbegin(); it != pauses_.rend() && it->end > from; ++it) {
    if (it->tid != tid) add_stops(*it, tid, from - 1, std::numeric_limits<Ns>::max(), stops);
  }
  sort_by_begin(stops);
  if (!stops.empty() && stops.front().begin < from) {
    for (const auto& stop : stops) {
      if (stop.begin > from) break;
      from = std::max(from, stop.end);
    }
  }
  const bool held = std::ranges::any_of(
      open_, [&](const auto& entry) { return entry.first != tid && entry.second <= from; });
  if (held) return std::nullopt;
  return from;
}

bool PauseLog::settled(Ns time) const {
  return std::ranges::none_of(open_, [&](const auto& entry) { return entry.second <= time; });
}

Ns PauseLog::covered(std::uint32_t tid, Ns from, Ns to) const {
  std::vector<WorldStop> stops;
  for (auto it = pauses_.rbegin(); it != pauses_.rend() && it->end > from; ++it) {
    add_stops(*it, tid, from, to, stops);
  }
  return length(stops);
}

Ns PauseLog::stopped_by(const Pause& pause, std::uint32_t tid, Ns from, Ns to) const {
  std::vector<WorldStop> stops;
  add_stops(pause, tid, from, to, stops);
  return length(stops);
}

void PauseLog::for_each_in(Ns from, Ns to, const std::function<void(const Pause&)>& visit) const {
  auto first = pauses_.end();
  while (first != pauses_.begin() && std::prev(first)->end > from) --first;
  for (auto it = first; it != pauses_.end(); ++it) {
    if (intersection(it->begin, it->end, from, to) > 0) visit(*it);
  }
}

void PauseLog::forget_before(Ns time) {
  while (!pauses_.empty() && pauses_.front().end <= time) pauses_.pop_front();
}

}  // namespace gcause
