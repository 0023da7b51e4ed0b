// SPDX-License-Identifier: Apache-2.0
#include "attribution/run_delays.h"

#include <algorithm>

namespace gcause {
namespace {

constexpr std::size_t kKept = 1024;  // of one thread

}  // namespace

void RunDelays::add(std::uint32_t tid, Ns at, std::uint32_t sum) {
  auto& samples = samples_[tid];
  if (!samples.empty() && samples.back().at >= at) return;
  samples.push_back({at, sum});
  if (samples.size() > kKept) samples.pop_front();
}

std::optional<RunDelays::Sample> RunDelays::before(std::uint32_t tid, Ns at) const {
  const auto found = samples_.find(tid);
  if (found == samples_.end()) return std::nullopt;
  const auto& samples = found->second;
  const auto behind = std::ranges::upper_bound(samples, at, {}, &Sample::at);
  if (behind == samples.begin()) return std::nullopt;
  return *std::prev(behind);
}

Ns RunDelays::between(std::uint32_t from, std::uint32_t to) {
  return static_cast<Ns>(to - from) * kMicrosecond;
}

}  // namespace gcause
