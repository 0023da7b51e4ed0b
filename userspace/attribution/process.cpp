// SPDX-License-Identifier: Apache-2.0
#include "attribution/process.h"

#include <algorithm>
#include <set>

namespace gcause {

void Attribution::Process::followed(const ProcessFollowed& event) {
  windows_.begin(event.seen_from);
  ended_.reset();
}

void Attribution::Process::pause_ended(const PauseEnded& event) {
  if (event.id == 0) {
    log_.cancel(event.tid);
    settle(false);
    return;
  }
  // Where the world is stopped for parts of a pause, only these hold the other threads.
  for (const auto& stop : event.world_stops) {
    log_.close({stop.begin, stop.end, event.id, event.tid});
  }
  if (event.world_stops.empty()) log_.close({event.begin, event.end, event.id, event.tid});
  pauses_.add(event.end - event.begin);
  by_generation_[event.generation].add(event.end - event.begin);
  ++progress_.pauses;
  handler_(PauseFinding{event});
  settle(false);
  judge_windows(event.end);
  if (log_.size() > forget_at_) forget_old_pauses();
}

void Attribution::Process::stream_began(const StreamBegan& event) {
  streams_[event.id].began = event;
  ++stream_count_;
  ++progress_.streams;
}

void Attribution::Process::chunk_read(const ChunkRead& event) {
  const auto found = streams_.find(event.stream);
  if (found == streams_.end()) return;
  ++chunk_count_;
  ++progress_.chunks;
  const auto delivery = log_.free_at(event.tid, event.read);
  if (found->second.undelivered > 0 || !delivery || !log_.settled(*delivery)) {
    ++found->second.undelivered;
    undelivered_.push_back({event, std::nullopt});
  } else {
    deliver(event, *delivery, std::nullopt);
  }
  judge_windows(event.read);
}

/// Judges the windows that end before `now`, as far as no chunk is still to be delivered in them.
void Attribution::Process::judge_windows(Ns now) {
  if (!windows_.due(now)) return;
  for (const auto& pending : undelivered_) now = std::min(now, pending.chunk.read);
  // More chunks may be read at this very moment.
  windows_.advance(now - 1);
}

/// Chunks that no pause holds back any more are delivered, those of one stream in their order; or
/// all, where nothing more will be heard.
void Attribution::Process::deliver_pending(bool all) {
  std::set<std::uint64_t> held_streams;
  std::vector<std::pair<Undelivered, Ns>> ready;
  std::erase_if(undelivered_, [&](const Undelivered& pending) {
    auto delivery = log_.free_at(pending.chunk.tid, pending.chunk.read);
    if (all && !delivery) delivery = pending.chunk.read;
    if (delivery && !all && !log_.settled(*delivery)) delivery.reset();
    if (!delivery || held_streams.contains(pending.chunk.stream)) {
      held_streams.insert(pending.chunk.stream);
      return false;
    }
    ready.emplace_back(pending, *delivery);
    return true;
  });
  for (const auto& [pending, delivery] : ready) {
    deliver(pending.chunk, delivery, pending.wait);
    auto& stream = streams_.at(pending.chunk.stream);
    if (--stream.undelivered == 0 && stream.ended) close_bursts(stream);
    send_ready(pending.chunk.stream, false);
  }
}

/// A pause is over: what waited for that goes on.
void Attribution::Process::settle(bool all) {
  deliver_pending(all);
  std::erase_if(unsettled_waits_, [&](const auto& entry) {
    const auto& [awaiting, wait] = entry;
    if (!all && !log_.settled(wait)) return false;
    set_held(awaiting, wait);
    return true;
  });
}

void Attribution::Process::close_bursts(Stream& stream) {
  for (auto& outgoing : stream.outgoing) outgoing.burst_open = false;
}

void Attribution::Process::deliver(const ChunkRead& chunk, Ns delivery, std::optional<Ns> wait) {
  auto& stream = streams_.at(chunk.stream);
  // A later chunk of the stream is not delivered before an earlier one, whoever read it.
  delivery = std::max(delivery, stream.last_delivery.value_or(delivery));
  ++stream.chunks;
  Outgoing outgoing{{chunk, delivery, std::nullopt}, std::nullopt, false, false};
  extend_burst(stream, chunk, delivery);
  // Without a known arrival the chunk counts as there since the one before it was delivered.
  const Ns arrival =
      std::min(chunk.arrival.value_or(stream.last_delivery.value_or(delivery)), delivery);
  const Ns but_for_delivery = delivery - log_.covered(arrival, delivery);
  if (stream.last_delivery) {
    outgoing.gap = make_gap(stream, chunk, delivery);
    if (outgoing.gap->over_budget) {
      close_bursts(stream);  // a new stall
      outgoing.burst_open = !stream.ended || stream.undelivered > 1;
    }
    // Where the arrival is not known, the chunk before it cannot be moved alone: it would open a
    // gap that never was.
    count_gap(*outgoing.gap, chunk.arrival
                                 ? std::max<Ns>(0, but_for_delivery - stream.last_but_for_delivery)
                                 : outgoing.gap->but_for);
  } else if (stream.began.request_end) {
    stream.first_chunk = delivery - *stream.began.request_end;
    first_chunks_.add(*stream.first_chunk);
  }
  stream.last_delivery = delivery;
  stream.last_but_for_delivery = but_for_delivery;
  stream.outgoing.push_back(std::move(outgoing));
  const Awaiting awaiting{chunk.stream, stream.sent + stream.outgoing.size() - 1};
  if (wait) {
    waited(awaiting, *wait);
  } else {
    awaiting_[chunk.tid].push_back(awaiting);
  }
}

GapFinding Attribution::Process::make_gap(const Stream& stream, const ChunkRead& chunk,
                                          Ns delivery) const {
  GapFinding gap;
  gap.stream = chunk.stream;
  gap.index = chunk.index;
  gap.pid = chunk.pid;
  gap.tid = chunk.tid;
  gap.from = *stream.last_delivery;
  gap.to = delivery;
  gap.gap = gap.to - gap.from;
  gap.basis = chunk.arrival ? Basis::arrival : Basis::overlap;
  const Ns arrival = std::clamp(chunk.arrival.value_or(gap.from), gap.from, gap.to);
  gap.upstream = arrival - gap.from;
  gap.charged = log_.covered(arrival, gap.to);
  gap.process = gap.gap - gap.upstream - gap.charged;
  gap.but_for = gap.gap - gap.charged;
  charge_pauses(gap, arrival);
  gap.over_budget = gap.gap > budget_;
  if (gap.over_budget && !contains_loss(gap.from, gap.to)) gap.verdict = judge(gap, budget_);
  return gap;
}

void Attribution::Process::charge_pauses(GapFinding& gap, Ns charged_from) const {
  log_.for_each_in(gap.from, gap.to, [&](const PauseLog::Interval& pause) {
    const Ns charged = intersection(pause.begin, pause.end, charged_from, gap.to);
    if (charged > 0) {
      gap.pauses.push_back({pause.id, charged});
    } else {
      gap.exonerated.push_back(pause.id);
    }
  });
}

void Attribution::Process::count_gap(const GapFinding& gap, Ns but_for_gap) {
  if (contains_loss(gap.from, gap.to)) {
    unjudged_ += gap.over_budget;
    ++gaps_with_loss_;
    return;
  }
  gaps_.add(gap.gap);
  but_for_.add(but_for_gap);
  windows_.add(gap.to, gap.gap, but_for_gap);
  over_budget_ += gap.over_budget;
  if (gap.verdict) ++verdicts_[*gap.verdict];
  if (gap.gap > progress_.worst_gap) {
    progress_.worst_gap = gap.gap;
    progress_.worst_verdict = gap.verdict;
  }
}

/// Counts a chunk to the burst of the gap behind which it had queued, or ends that burst.
void Attribution::Process::extend_burst(Stream& stream, const ChunkRead& chunk, Ns delivery) {
  for (auto& outgoing : stream.outgoing) {
    if (!outgoing.burst_open) continue;
    const Ns end = outgoing.chunk.delivery;
    outgoing.burst_open = chunk.arrival ? *chunk.arrival <= end : delivery == end;
    outgoing.gap->burst += outgoing.burst_open;
  }
  send_ready(chunk.stream, false);
}

void Attribution::Process::stream_ended(const StreamEnded& event) {
  const auto found = streams_.find(event.id);
  if (found == streams_.end()) return;
  found->second.ended = event;
  if (found->second.undelivered == 0) close_bursts(found->second);
  send_ready(event.id, false);
}

void Attribution::Process::wait_began(const WaitBegan& event) {
  for (auto& pending : undelivered_) {
    if (pending.chunk.tid == event.tid && !pending.wait) pending.wait = event.at;
  }
  const auto found = awaiting_.find(event.tid);
  if (found == awaiting_.end()) return;
  const auto waiting = std::move(found->second);
  awaiting_.erase(found);
  for (const auto& awaiting : waiting) waited(awaiting, event.at);
}

/// The thread of a delivered chunk has asked for more at `wait`.
void Attribution::Process::waited(const Awaiting& awaiting, Ns wait) {
  if (log_.settled(wait)) {
    set_held(awaiting, wait);
  } else {
    unsettled_waits_.emplace_back(awaiting, wait);
  }
}

void Attribution::Process::set_held(const Awaiting& awaiting, Ns wait) {
  const auto found = streams_.find(awaiting.stream);
  if (found == streams_.end()) return;
  auto& stream = found->second;
  auto& outgoing = stream.outgoing.at(awaiting.ordinal - stream.sent);
  const Ns held = log_.covered(outgoing.chunk.delivery, wait);
  outgoing.chunk.held = held;
  if (outgoing.gap) outgoing.gap->held = held;
  outgoing.waited = true;
  send_ready(awaiting.stream, false);
}

/// Hands out the findings of a stream that are complete, in order; the stream's own comes last.
void Attribution::Process::send_ready(std::uint64_t id, bool all) {
  auto& stream = streams_.at(id);
  while (!stream.outgoing.empty()) {
    auto& front = stream.outgoing.front();
    if (!all && (!front.waited || front.burst_open)) return;
    handler_(front.chunk);
    if (front.gap) handler_(*front.gap);
    stream.outgoing.pop_front();
    ++stream.sent;
  }
  if (stream.ended && stream.undelivered == 0) {
    handler_(StreamFinding{stream.began, *stream.ended, stream.first_chunk, stream.chunks});
    streams_.erase(id);
  }
}

void Attribution::Process::lost(const Lost& event) {
  lost_ += event.count;
  losses_.emplace_back(event.from, event.to);
}

bool Attribution::Process::contains_loss(Ns from, Ns to) const {
  for (auto it = losses_.rbegin(); it != losses_.rend() && it->second >= from; ++it) {
    if (it->first <= to) return true;
  }
  return false;
}

/// Pauses before the oldest delivery that a gap can still start from can charge nothing any more.
void Attribution::Process::forget_old_pauses() {
  Ns oldest = INT64_MAX;
  for (const auto& [id, stream] : streams_) {
    const bool over = stream.ended && stream.outgoing.empty();
    if (stream.last_delivery && !over) oldest = std::min(oldest, *stream.last_delivery);
    for (const auto& outgoing : stream.outgoing) {
      oldest = std::min(oldest, outgoing.chunk.delivery);
    }
  }
  for (const auto& pending : undelivered_) {
    oldest = std::min(oldest, pending.chunk.arrival.value_or(pending.chunk.read));
  }
  // A chunk may have arrived before the delivery in front of it: leave room for that.
  if (oldest != INT64_MAX) log_.forget_before(oldest - 60 * kSecond);
  forget_at_ = 2 * log_.size() + 1024;
}

void Attribution::Process::flush(Ns at) {
  if (!ended_) ended_ = at;
  settle(true);
  std::vector<std::uint64_t> ids;
  for (const auto& [id, stream] : streams_) ids.push_back(id);
  std::sort(ids.begin(), ids.end());
  for (const auto id : ids) {
    auto& stream = streams_.at(id);
    if (!stream.ended) {
      stream.ended = StreamEnded{id, pid_, at, StreamEnd::open, std::nullopt, 0, 0};
    }
    send_ready(id, true);
  }
  awaiting_.clear();
}

SummaryFinding Attribution::Process::summary() {
  SummaryFinding summary;
  summary.pid = pid_;
  summary.pauses = pauses_.totals();
  for (auto& [generation, durations] : by_generation_) {
    summary.by_generation[generation] = durations.totals();
  }
  summary.streams = stream_count_;
  summary.chunks = chunk_count_;
  summary.gap = gaps_.distribution();
  summary.but_for = but_for_.distribution();
  summary.first_chunk = first_chunks_.distribution();
  summary.verdicts = verdicts_;
  summary.over_budget = over_budget_;
  summary.unjudged = unjudged_;
  summary.budget_kept = summary.gap.p99 <= budget_;
  summary.but_for_kept = summary.but_for.p99 <= budget_;
  summary.gaps_with_loss = gaps_with_loss_;
  summary.lost = lost_;
  summary.windows = windows_.totals(summary.gap, summary.but_for);
  return summary;
}

}  // namespace gcause
