// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <unordered_map>
#include <vector>

#include "attribution/attribution.h"
#include "attribution/backlog.h"
#include "attribution/budget_windows.h"
#include "attribution/pause_log.h"
#include "attribution/quantiles.h"
#include "attribution/run_delays.h"
#include "util/queue.h"

namespace gcause {

/// The streams and pauses of one process, and what follows from them.
class Attribution::Process {
 public:
  Process(std::uint32_t pid, const FindingHandler& handler, const Ns& budget, Progress& progress)
      : pid_(pid),
        handler_(handler),
        budget_(budget),
        progress_(progress),
        figures_{Figures(*this, StreamDirection::read), Figures(*this, StreamDirection::write)} {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void followed(const ProcessFollowed& event);

  void pause_began(const PauseBegan& event) { log_.open(event.tid, event.at); }
  void pause_ended(const PauseEnded& event);
  void interpreter_found(const InterpreterFound& event) {
    log_.set_lock(event.interpreter, event.lock);
  }
  void thread_found(const ThreadFound& event) {
    log_.set_interpreter(event.tid, event.interpreter);
  }
  void stream_began(const StreamBegan& event);
  void chunk_read(const ChunkRead& event);
  void stream_ended(const StreamEnded& event);
  void wait_began(const WaitBegan& event);
  void lock_waited(const LockWaited& event);
  void lost(const Lost& event);
  void tls_reader_found(const TlsReaderFound& event);
  void tls_unread(const TlsUnread& event);

  /// Nothing more will come: what is pending leaves, with `held` unknown.
  void flush(Ns at);

  /// All has been flushed: the last windows, then the summary.
  void end_windows() {
    for (auto& figures : figures_) figures.windows.finish(ended_);
  }
  SummaryFinding summary();

 private:
  /// What is counted of the streams of one direction.
  struct Figures {
    Figures(Process& process, StreamDirection of)
        : direction(of),
          windows(process.pid_, of, process.budget_,
                  [&process](const WindowFinding& window) { process.handler_(window); }) {}

    StreamDirection direction;
    Quantiles gaps;
    Quantiles but_for;
    Quantiles first_chunks;
    Quantiles first_chunks_but_for;
    Quantiles since_source;
    std::uint64_t streams = 0;
    std::uint64_t chunks = 0;
    std::map<Verdict, std::uint64_t> verdicts;
    std::uint64_t over_budget = 0;
    std::uint64_t unjudged = 0;
    std::uint64_t gaps_with_loss = 0;
    BudgetWindows windows;
  };

  /// A chunk on its way out: delivered, but its thread has not waited again yet, or the burst
  /// behind its gap is still being counted. One that was written leaves at the latest with the next
  /// of its stream, or with the end of that.
  struct Outgoing {
    ChunkFinding chunk;
    std::optional<GapFinding> gap;
    bool waited = false;
    bool burst_open = false;
  };

  struct Stream {
    StreamBegan began;
    std::optional<StreamEnded> ended;
    std::optional<FirstChunk> first_chunk;
    std::uint64_t chunks = 0;
    std::uint32_t undelivered = 0;
    std::optional<Ns> last_delivery;
    std::uint32_t last_tid = 0;                       ///< the thread that read the same chunk
    std::optional<RunDelays::Sample> last_run_delay;  ///< at that read
    Ns last_but_for_delivery = 0;                     ///< d' of the same chunk
    Queue<Outgoing> outgoing;
    std::uint64_t sent = 0;  ///< chunks that have left; the first of `outgoing` has this ordinal

    bool is_written() const { return began.direction == StreamDirection::write; }
  };

  /// A chunk that was read, and whose thread may still have to wait before it goes on: for the
  /// pause of another thread, or for a lock. That it did not is known when it asks for more, or
  /// passes the chunk on. Or one that was written inside of a pause that is not over yet.
  struct Undelivered {
    ChunkRead chunk;
    bool written;
    bool last = true;      ///< a written one: none of its stream followed, and that is not over
    bool went_on = false;  ///< its thread has passed on this one, or a later one
    std::optional<Ns> wait = {};      ///< its thread has waited again
    std::optional<Ns> lock_end = {};  ///< it slept for a lock behind this read, until then
  };

  /// A delivered chunk whose thread has not waited again: stream and ordinal in it.
  struct Awaiting {
    std::uint64_t stream;
    std::uint64_t ordinal;
  };

  void deliver(const Undelivered& pending, Ns delivery);
  void deliver_one(const Undelivered& pending, Ns delivery);
  void settle(Ns now);
  void deliver_pending(Ns now);
  std::optional<Ns> delivery_of(const Undelivered& pending, Ns now) const;
  void went_on_from(const ChunkPlace& place, Ns now);
  void wait_no_longer(std::uint64_t id, Stream& stream);
  std::optional<Ns> since_source(const ChunkRead& chunk, Ns delivery) const;
  void remember(const ChunkRead& chunk, Ns delivery);
  Figures& figures_of(const Stream& stream) {
    return figures_.at(static_cast<std::size_t>(stream.began.direction));
  }
  static void close_bursts(Stream& stream);
  Ns but_for_delivery(const Undelivered& pending, Ns arrival, Ns delivery);
  GapFinding make_gap(const Stream& stream, const Undelivered& pending, Ns delivery) const;
  void charge_pauses(GapFinding& gap, Ns charged_from) const;
  std::optional<Ns> cpu_wait(const Stream& stream, const ChunkRead& chunk,
                             const GapFinding& gap) const;
  std::optional<Ns> lock_wait(const Undelivered& pending, const GapFinding& gap) const;
  FirstChunk first_chunk(Ns request_end, const ChunkRead& chunk, Ns delivery) const;
  void count_gap(Figures& figures, const GapFinding& gap, Ns but_for_gap);
  void extend_burst(Stream& stream, const ChunkRead& chunk, Ns delivery);
  void waited(const Awaiting& awaiting, Ns wait);
  void set_held(const Awaiting& awaiting, Ns wait);
  void send_ready(std::uint64_t id, bool all);
  std::optional<std::uint64_t> pause_at(Ns at, std::uint32_t tid) const;
  void tell_unread(const TlsUnread& connection, const std::string& library);
  bool contains_loss(Ns from, Ns to) const;
  StreamTotals totals_of(Figures& figures) const;
  void add_up(SummaryFinding& summary);
  void forget_old_pauses();
  void judge_windows(Ns now);

  std::uint32_t pid_;
  const FindingHandler& handler_;
  const Ns& budget_;
  Progress& progress_;

  PauseLog log_;
  RunDelays run_delays_;
  struct Queue {
    Backlog backlog;
    Ns last_delivery = 0;
  };
  std::map<std::pair<std::uint32_t, bool>, Queue> queues_;  ///< by tid, and whether it writes
  std::size_t forget_at_ = 1024;
  std::unordered_map<std::uint64_t, Stream> streams_;
  std::vector<Undelivered> undelivered_;
  std::unordered_map<std::uint32_t, std::vector<Awaiting>> awaiting_;  ///< by tid
  std::vector<std::pair<Awaiting, Ns>> unsettled_waits_;  ///< in a pause that is still open
  std::vector<std::uint64_t> unsettled_ends_;             ///< streams that were cut in one
  std::vector<std::pair<Ns, Ns>> losses_;

  Quantiles pauses_;
  std::map<std::optional<std::int32_t>, Quantiles> by_generation_;
  std::array<Figures, 2> figures_;  ///< by StreamDirection
  /// When the newest chunks that were read were delivered, the oldest first: written ones may pass
  /// them on. Kept once the process writes streams.
  std::map<std::pair<std::uint64_t, std::uint32_t>, Ns> delivered_;
  std::deque<ChunkPlace> delivered_order_;
  std::uint64_t lost_ = 0;
  /// By socket, whose code uses it; empty where that could not be found out.
  std::unordered_map<std::uint64_t, std::string> tls_readers_;
  std::map<std::uint64_t, TlsUnread> tls_unread_;  ///< by socket, whose code is not known yet
  std::uint64_t tls_unread_count_ = 0;
  std::optional<Ns> ended_;
};

}  // namespace gcause
