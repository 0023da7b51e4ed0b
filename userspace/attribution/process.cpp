// SPDX-License-Identifier: Apache-2.0
#include "attribution/process.h"

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

namespace gcause {
namespace {

/// How long a chunk waits for its thread to ask for more; then nothing more is to be learnt of it.
constexpr Ns kPatience = 10 * kSecond;

constexpr Ns kForever = std::numeric_limits<Ns>::max();

/// Deliveries of chunks that were read that are remembered, of a process that writes streams, and
/// of another, which may be about to.
constexpr std::size_t kRememberedByServers = 4096, kRememberedByOthers = 256;

}  // namespace

void Attribution::Process::followed(const ProcessFollowed& event) {
  for (auto& figures : figures_) figures.windows.begin(event.seen_from);
  ended_.reset();
}

void Attribution::Process::pause_ended(const PauseEnded& event) {
  if (event.id == 0) {
    log_.cancel(event.tid);
    settle(event.end);
    return;
  }
  log_.close({event.begin, event.end, event.id, event.tid, event.interpreter, event.world_stops,
              event.cpu});
  pauses_.add(event.end - event.begin);
  by_generation_[event.generation].add(event.end - event.begin);
  ++progress_.pauses;
  handler_(PauseFinding{event});
  settle(event.end);
  judge_windows(event.end);
  if (log_.size() > forget_at_) forget_old_pauses();
}

void Attribution::Process::stream_began(const StreamBegan& event) {
  auto& stream = streams_[event.id];
  stream.began = event;
  ++figures_of(stream).streams;
  ++progress_.streams;
}

void Attribution::Process::chunk_read(const ChunkRead& event) {
  const auto found = streams_.find(event.stream);
  if (found == streams_.end()) return;
  auto& stream = found->second;
  if (event.run_delay) run_delays_.add(event.tid, event.read, *event.run_delay);
  ++figures_of(stream).chunks;
  ++progress_.chunks;
  const Undelivered pending{event, stream.is_written()};
  const bool is_first = stream.undelivered++ == 0;
  if (pending.written) {
    wait_no_longer(event.stream, stream);
    send_ready(event.stream, false);
  }
  if (event.source) went_on_from(*event.source, event.read);
  const auto delivery = pending.written ? delivery_of(pending, event.read) : std::nullopt;
  if (is_first && delivery) {
    deliver_one(pending, *delivery);
  } else {
    undelivered_.push_back(pending);
  }
  const bool is_late =
      !undelivered_.empty() && undelivered_.front().chunk.read < event.read - kPatience;
  if (is_late) deliver_pending(event.read);
  judge_windows(event.read);
}

/// The chunk at `place` is passed on by now: its thread went on from it, and from what it had read
/// before, as those did that had read the chunks in front of it.
void Attribution::Process::went_on_from(const ChunkPlace& place, Ns now) {
  const auto source = std::ranges::find_if(undelivered_, [&](const Undelivered& pending) {
    return pending.chunk.stream == place.stream && pending.chunk.index == place.index;
  });
  if (source == undelivered_.end() || source->written) return;
  const auto [tid, read] = std::pair(source->chunk.tid, source->chunk.read);
  for (auto& pending : undelivered_) {
    const auto& chunk = pending.chunk;
    const bool is_earlier = chunk.stream == place.stream && chunk.index <= place.index;
    pending.went_on |= is_earlier || (chunk.tid == tid && chunk.read <= read);
  }
  deliver_pending(now);
}

/// Judges the windows that end before `now`, as far as no chunk is still to be delivered in them.
void Attribution::Process::judge_windows(Ns now) {
  const auto due = [&](const Figures& figures) { return figures.windows.due(now); };
  if (std::ranges::none_of(figures_, due)) return;
  for (const auto& pending : undelivered_) now = std::min(now, pending.chunk.read);
  // More chunks may be read at this very moment.
  for (auto& figures : figures_) figures.windows.advance(now - 1);
}

/// When the thread of a chunk could go on; nothing, if that is not known by `now`.
std::optional<Ns> Attribution::Process::delivery_of(const Undelivered& pending, Ns now) const {
  const auto& chunk = pending.chunk;
  if (pending.written) {
    // The return of the write, by definition.
    return now == kForever || log_.settled(chunk.read) ? std::optional(chunk.read) : std::nullopt;
  }
  auto delivery = log_.free_at(chunk.tid, chunk.read);
  if (now == kForever) {
    if (!delivery) delivery = chunk.read;
  } else if (!delivery || (!pending.wait && !pending.went_on && now - *delivery < kPatience)) {
    return std::nullopt;
  }
  if (pending.lock_end) {
    // A thread that woke inside of a pause had looked for the lock in vain.
    const auto locked = log_.free_at(chunk.tid, *pending.lock_end);
    if (!locked && now != kForever) return std::nullopt;
    delivery = std::max(*delivery, locked.value_or(*pending.lock_end));
  }
  if (now != kForever && !log_.settled(*delivery)) return std::nullopt;
  return delivery;
}

/// Chunks that nothing holds back any more are delivered, those of one stream in their order; or
/// all, where nothing more will be heard: at `now` kForever.
void Attribution::Process::deliver_pending(Ns now) {
  std::set<std::uint64_t> held_streams;
  std::vector<std::pair<Undelivered, Ns>> ready;
  std::erase_if(undelivered_, [&](const Undelivered& pending) {
    const auto delivery = delivery_of(pending, now);
    if (!delivery || held_streams.contains(pending.chunk.stream)) {
      held_streams.insert(pending.chunk.stream);
      return false;
    }
    ready.emplace_back(pending, *delivery);
    return true;
  });
  for (const auto& [pending, delivery] : ready) deliver_one(pending, delivery);
}

void Attribution::Process::deliver_one(const Undelivered& pending, Ns delivery) {
  const auto id = pending.chunk.stream;
  deliver(pending, delivery);
  auto& stream = streams_.at(id);
  if (--stream.undelivered == 0 && stream.ended) close_bursts(stream);
  send_ready(id, false);
}

/// A pause is over: what waited for that goes on.
void Attribution::Process::settle(Ns now) {
  deliver_pending(now);
  std::erase_if(unsettled_waits_, [&](const auto& entry) {
    const auto& [awaiting, wait] = entry;
    if (now != kForever && !log_.settled(wait)) return false;
    set_held(awaiting, wait);
    return true;
  });
  for (const auto id : std::exchange(unsettled_ends_, {})) {
    if (streams_.contains(id)) send_ready(id, false);
  }
}

void Attribution::Process::close_bursts(Stream& stream) {
  for (auto& outgoing : stream.outgoing) outgoing.burst_open = false;
}

void Attribution::Process::deliver(const Undelivered& pending, Ns delivery) {
  const auto& chunk = pending.chunk;
  auto& stream = streams_.at(chunk.stream);
  // A later chunk of the stream is not delivered before an earlier one, whoever read it.
  delivery = std::max(delivery, stream.last_delivery.value_or(delivery));
  ++stream.chunks;
  auto& figures = figures_of(stream);
  Outgoing outgoing{
      {chunk, delivery, std::nullopt, since_source(chunk, delivery)}, std::nullopt, false, false};
  if (outgoing.chunk.since_source) figures.since_source.add(*outgoing.chunk.since_source);
  if (!pending.written) remember(chunk, delivery);
  extend_burst(stream, chunk, delivery);
  // Without a known arrival the chunk counts as there since the one before it was delivered.
  const Ns arrival =
      std::min(chunk.arrival.value_or(stream.last_delivery.value_or(delivery)), delivery);
  const Ns but_for_delivery = this->but_for_delivery(pending, arrival, delivery);
  if (stream.last_delivery) {
    outgoing.gap = make_gap(stream, pending, delivery);
    if (outgoing.gap->over_budget) {
      close_bursts(stream);  // a new stall
      outgoing.burst_open = !stream.ended || stream.undelivered > 1;
    }
    // Where the arrival is not known, the chunk before it cannot be moved alone: it would open a
    // gap that never was.
    count_gap(figures, *outgoing.gap,
              chunk.arrival ? std::max<Ns>(0, but_for_delivery - stream.last_but_for_delivery)
                            : outgoing.gap->but_for);
  } else if (stream.began.request_end) {
    stream.first_chunk = first_chunk(*stream.began.request_end, chunk, delivery);
    figures.first_chunks.add(stream.first_chunk->time);
    figures.first_chunks_but_for.add(stream.first_chunk->but_for);
  }
  stream.last_delivery = delivery;
  stream.last_tid = chunk.tid;
  stream.last_run_delay.reset();
  if (chunk.run_delay) stream.last_run_delay = RunDelays::Sample{chunk.read, *chunk.run_delay};
  stream.last_but_for_delivery = but_for_delivery;
  stream.outgoing.push_back(std::move(outgoing));
  const Awaiting awaiting{chunk.stream, stream.sent + stream.outgoing.size() - 1};
  if (pending.wait) {
    waited(awaiting, *pending.wait);
  } else if (pending.written && !pending.last) {
    stream.outgoing.back().waited = true;
  } else {
    awaiting_[chunk.tid].push_back(awaiting);
  }
}

/// d': when the chunk would have been delivered without the pauses.
Ns Attribution::Process::but_for_delivery(const Undelivered& pending, Ns arrival, Ns delivery) {
  const auto& chunk = pending.chunk;
  const Ns paused = log_.covered(chunk.tid, arrival, delivery);
  auto& queue = queues_[{chunk.tid, pending.written}];
  const Ns before = std::exchange(queue.last_delivery, delivery);
  if (!chunk.arrival) {
    queue.backlog.forget();
    return delivery - paused;
  }
  return queue.backlog.but_for(
      {arrival, delivery, paused, log_.covered(chunk.tid, before, delivery)});
}

/// A written chunk does not wait for ever for its thread to wait: the next one, and the end of the
/// stream, end that.
void Attribution::Process::wait_no_longer(std::uint64_t id, Stream& stream) {
  if (stream.undelivered > 0) {
    for (auto& pending : undelivered_) pending.last &= pending.chunk.stream != id;
  }
  const auto found = awaiting_.find(stream.last_tid);
  if (found == awaiting_.end()) return;
  std::erase_if(found->second, [&](const Awaiting& awaiting) {
    if (awaiting.stream != id) return false;
    if (awaiting.ordinal >= stream.sent) {
      stream.outgoing[awaiting.ordinal - stream.sent].waited = true;
    }
    return true;
  });
}

void Attribution::Process::remember(const ChunkRead& chunk, Ns delivery) {
  const bool serves = figures_.at(static_cast<std::size_t>(StreamDirection::write)).streams > 0;
  delivered_[{chunk.stream, chunk.index}] = delivery;
  delivered_order_.push_back({chunk.stream, chunk.index});
  if (delivered_order_.size() <= (serves ? kRememberedByServers : kRememberedByOthers)) return;
  delivered_.erase({delivered_order_.front().stream, delivered_order_.front().index});
  delivered_order_.pop_front();
}

/// From the delivery of its source; nothing where that is not known any more.
std::optional<Ns> Attribution::Process::since_source(const ChunkRead& chunk, Ns delivery) const {
  if (!chunk.source) return std::nullopt;
  const auto source = delivered_.find({chunk.source->stream, chunk.source->index});
  if (source == delivered_.end() || source->second > delivery) return std::nullopt;
  return delivery - source->second;
}

GapFinding Attribution::Process::make_gap(const Stream& stream, const Undelivered& pending,
                                          Ns delivery) const {
  const auto& chunk = pending.chunk;
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
  gap.charged = log_.covered(chunk.tid, arrival, gap.to);
  gap.process = gap.gap - gap.upstream - gap.charged;
  gap.but_for = gap.gap - gap.charged;
  charge_pauses(gap, arrival);
  gap.cpu_wait = cpu_wait(stream, chunk, gap);
  gap.lock_wait = lock_wait(pending, gap);
  gap.over_budget = gap.gap > budget_;
  if (gap.over_budget && !contains_loss(gap.from, gap.to)) gap.verdict = judge(gap, budget_);
  return gap;
}

void Attribution::Process::charge_pauses(GapFinding& gap, Ns charged_from) const {
  log_.for_each_in(gap.from, gap.to, [&](const PauseLog::Pause& pause) {
    const Ns charged = log_.stopped_by(pause, gap.tid, charged_from, gap.to);
    if (charged > 0) {
      gap.pauses.push_back({pause.id, charged});
    } else {
      gap.exonerated.push_back(pause.id);
    }
  });
}

/// How much of the process's part of the gap the thread was runnable without a CPU, by the
/// scheduler's sums: that of this read less the newest that the thread's reads and waits told by
/// the arrival. It is too large by what the thread waited for a CPU between that moment and the
/// arrival, and inside pauses of other threads, where it looks for the lock now and then; too small
/// by what it waited between the copying of the bytes and the read's return. What a pause of its
/// own waited is taken out.
std::optional<Ns> Attribution::Process::cpu_wait(const Stream& stream, const ChunkRead& chunk,
                                                 const GapFinding& gap) const {
  if (!chunk.run_delay || !stream.last_run_delay || stream.last_tid != chunk.tid) {
    return std::nullopt;
  }
  auto since = *stream.last_run_delay;
  const auto newer = run_delays_.before(chunk.tid, std::min(gap.from + gap.upstream, chunk.read));
  if (newer && newer->at > since.at) since = *newer;
  Ns waited = RunDelays::between(since.sum, *chunk.run_delay);
  bool known = true;
  log_.for_each_in(since.at, chunk.read, [&](const PauseLog::Pause& pause) {
    if (pause.tid != chunk.tid) return;
    known = known && pause.cpu.has_value();
    waited -= pause.end - pause.begin - pause.cpu.value_or(0);
  });
  if (!known) return std::nullopt;
  return std::clamp<Ns>(waited, 0, gap.process);
}

/// How much of the process's part of the gap the thread slept for a lock between the return of the
/// read and its next step: CPython lets go of the interpreter lock around a read.
std::optional<Ns> Attribution::Process::lock_wait(const Undelivered& pending,
                                                  const GapFinding& gap) const {
  if (!pending.lock_end) return std::nullopt;
  const Ns from = std::max(pending.chunk.read, gap.from);
  const Ns to = std::max(*pending.lock_end, from);
  return std::min(to - from - log_.covered(gap.tid, from, to), gap.process);
}

/// The first chunk is charged as a gap that begins with the end of the request.
FirstChunk Attribution::Process::first_chunk(Ns request_end, const ChunkRead& chunk,
                                             Ns delivery) const {
  const Ns from = std::min(request_end, delivery);
  const Ns arrival = std::clamp(chunk.arrival.value_or(from), from, delivery);
  FirstChunk first;
  first.time = delivery - from;
  first.upstream = arrival - from;
  first.charged = log_.covered(chunk.tid, arrival, delivery);
  first.process = first.time - first.upstream - first.charged;
  first.but_for = first.time - first.charged;
  return first;
}

void Attribution::Process::count_gap(Figures& figures, const GapFinding& gap, Ns but_for_gap) {
  if (contains_loss(gap.from, gap.to)) {
    figures.unjudged += gap.over_budget;
    ++figures.gaps_with_loss;
    return;
  }
  figures.gaps.add(gap.gap);
  figures.but_for.add(but_for_gap);
  figures.windows.add(gap.to, gap.gap, but_for_gap);
  figures.over_budget += gap.over_budget;
  if (gap.verdict) ++figures.verdicts[*gap.verdict];
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
  if (found->second.is_written()) wait_no_longer(event.id, found->second);
  send_ready(event.id, false);
}

void Attribution::Process::wait_began(const WaitBegan& event) {
  if (event.run_delay) run_delays_.add(event.tid, event.at, *event.run_delay);
  for (auto& pending : undelivered_) {
    const bool is_over = pending.written && !pending.last;
    if (pending.chunk.tid == event.tid && !pending.wait && !is_over) pending.wait = event.at;
  }
  deliver_pending(event.at);
  const auto found = awaiting_.find(event.tid);
  if (found == awaiting_.end()) return;
  const auto waiting = std::move(found->second);
  awaiting_.erase(found);
  for (const auto& awaiting : waiting) waited(awaiting, event.at);
}

/// The thread slept for a lock behind its newest read.
void Attribution::Process::lock_waited(const LockWaited& event) {
  Ns newest = 0;
  for (auto it = undelivered_.rbegin(); it != undelivered_.rend(); ++it) {
    if (it->written || it->chunk.tid != event.tid || it->chunk.read > event.begin) continue;
    if (it->wait || it->chunk.read < newest) return;
    newest = it->chunk.read;
    it->lock_end = event.end;
  }
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
  if (awaiting.ordinal < stream.sent) return;  // a written one has left without
  auto& outgoing = stream.outgoing[awaiting.ordinal - stream.sent];
  const Ns held = log_.covered(outgoing.chunk.chunk.tid, outgoing.chunk.delivery, wait);
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
  if (!stream.ended || stream.undelivered > 0) return;
  const auto cut = stream.ended->cut;
  if (cut && !all && !log_.settled(*cut)) {
    unsettled_ends_.push_back(id);
    return;
  }
  handler_(StreamFinding{stream.began, *stream.ended, stream.first_chunk, stream.chunks,
                         cut ? pause_at(*cut, stream.last_tid) : std::nullopt});
  streams_.erase(id);
}

/// The pause, if there is one, that stopped the thread at this time.
std::optional<std::uint64_t> Attribution::Process::pause_at(Ns at, std::uint32_t tid) const {
  std::optional<std::uint64_t> id;
  log_.for_each_in(at, at + 1, [&](const PauseLog::Pause& pause) {
    if (log_.stopped_by(pause, tid, at, at + 1) > 0) id = pause.id;
  });
  return id;
}

void Attribution::Process::lost(const Lost& event) {
  lost_ += event.count;
  losses_.emplace_back(event.from, event.to);
}

/// Of a short connection it is known only behind its end.
void Attribution::Process::tls_reader_found(const TlsReaderFound& event) {
  const auto ended = tls_unread_.extract(event.socket);
  if (ended.empty()) {
    tls_readers_[event.socket] = event.object;
  } else {
    tell_unread(ended.mapped(), event.object);
  }
}

void Attribution::Process::tls_unread(const TlsUnread& event) {
  ++tls_unread_count_;
  const auto reader = tls_readers_.extract(event.socket);
  if (reader.empty()) {
    tls_unread_.insert_or_assign(event.socket, event);
  } else {
    tell_unread(event, reader.mapped());
  }
}

void Attribution::Process::tell_unread(const TlsUnread& connection, const std::string& library) {
  handler_(TlsUnreadFinding{connection, library.empty() ? std::nullopt : std::optional(library)});
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
  settle(kForever);
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
  for (const auto& [socket, connection] : tls_unread_) tell_unread(connection, "");
  tls_unread_.clear();
  awaiting_.clear();
}

}  // namespace gcause
