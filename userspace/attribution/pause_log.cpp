// SPDX-License-Identifier: Apache-2.0
#include "attribution/pause_log.h"

#include <algorithm>
#include <vector>

namespace gcause {

void PauseLog::close(const Interval& pause) {
  open_.erase(pause.tid);
  pauses_.push_back(pause);
  Interval whole{pause.begin, pause.end, 0};
  while (!merged_.empty() && merged_.back().end >= whole.begin) {
    whole.begin = std::min(whole.begin, merged_.back().begin);
    whole.end = std::max(whole.end, merged_.back().end);
    merged_.pop_back();
  }
  merged_.push_back(whole);
}

std::optional<Ns> PauseLog::free_at(std::uint32_t tid, Ns from) const {
  auto first = pauses_.end();
  while (first != pauses_.begin() && std::prev(first)->end > from) --first;
  for (auto it = first; it != pauses_.end(); ++it) {
    if (it->tid != tid && it->begin <= from && from < it->end) from = it->end;
  }
  const bool held = std::any_of(open_.begin(), open_.end(), [&](const auto& entry) {
    return entry.first != tid && entry.second <= from;
  });
  if (held) return std::nullopt;
  return from;
}

bool PauseLog::settled(Ns time) const {
  return std::none_of(open_.begin(), open_.end(),
                      [&](const auto& entry) { return entry.second <= time; });
}

Ns PauseLog::covered(Ns from, Ns to) const {
  Ns sum = 0;
  for (auto it = merged_.rbegin(); it != merged_.rend() && it->end > from; ++it) {
    sum += intersection(it->begin, it->end, from, to);
  }
  return sum;
}

void PauseLog::for_each_in(Ns from, Ns to,
                           const std::function<void(const Interval&)>& visit) const {
  auto first = pauses_.end();
  while (first != pauses_.begin() && std::prev(first)->end > from) --first;
  for (auto it = first; it != pauses_.end(); ++it) {
    if (intersection(it->begin, it->end, from, to) > 0) visit(*it);
  }
}

void PauseLog::forget_before(Ns time) {
  while (!pauses_.empty() && pauses_.front().end <= time) pauses_.pop_front();
  while (!merged_.empty() && merged_.front().end <= time) merged_.pop_front();
}

}  // namespace gcause
