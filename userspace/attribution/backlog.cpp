// SPDX-License-Identifier: Apache-2.0
#include "attribution/backlog.h"

#include <algorithm>

namespace gcause {
namespace {

/// Chunks of one queue whose work is remembered. What is behind counts as if it took no time.
constexpr std::size_t kMostWork = 4096;

}  // namespace

Ns Backlog::but_for(const Delivered& chunk) {
  Ns result = chunk.delivery - chunk.paused;
  const bool queued = has_last_ && chunk.arrival <= last_delivery_;
  if (open_ && queued && work_.size() < kMostWork) {
    const Ns worked = chunk.delivery - last_delivery_ - chunk.paused_before;
    if (worked > 0) work_.emplace_back(last_but_for_, last_but_for_ + worked);
  }
  if (open_ && !queued) work_.clear();
  open_ = chunk.paused > 0 || (open_ && queued);
  if (open_) result = std::min(result, free_at(chunk.arrival));
  has_last_ = true;
  last_delivery_ = chunk.delivery;
  last_but_for_ = result;
  return result;
}

/// The first instant from `arrival` on in which the thread would not have been at work.
Ns Backlog::free_at(Ns arrival) const {
  const auto at_work = [&](const std::pair<Ns, Ns>& work) {
    return work.first <= arrival && arrival < work.second;
  };
  for (auto it = std::ranges::find_if(work_, at_work); it != work_.end();
       it = std::ranges::find_if(work_, at_work)) {
    arrival = it->second;
  }
  return arrival;
}

}  // namespace gcause
