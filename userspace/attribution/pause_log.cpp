// SPDX-License-Identifier: Apache-2.0
#include "attribution/pause_log.h"

#include <algorithm>
#include <vector>

namespace gcause {

void PauseLog::close(std::uint32_t tid, Interval pause) {
  open_.erase(tid);
  pauses_.push_back(pause);
  Interval whole{pause.begin, pause.end, 0};
  while (!merged_.empty() && merged_.back().end >= whole.begin) {
    whole.begin = std::min(whole.begin, merged_.back().begin);
    whole.end = std::max(whole.end, merged_.back().end);
    merged_.pop_back();
  }
  merged_.push_back(whole);
}

bool PauseLog::open_elsewhere(std::uint32_t tid) const {
  return std::any_of(open_.begin(), open_.end(),
                     [&](const auto& entry) { return entry.first != tid; });
}

Ns PauseLog::covered(Ns from, Ns to) const {
  if (to <= from) return 0;
  // An open pause covers everything from its begin on, and whatever the log says after that.
  Ns end = to;
  for (const auto& [tid, begin] : open_) end = std::min(end, begin);
  Ns sum = end < to ? to - std::max(from, end) : 0;
  for (auto it = merged_.rbegin(); it != merged_.rend() && it->end > from; ++it) {
    sum += intersection(it->begin, it->end, from, end);
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
