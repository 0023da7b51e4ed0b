// SPDX-License-Identifier: Apache-2.0
//
// Attribution against a second implementation of the formulas, written slowly and obviously: time
// is a row of ticks, and a length is the number of ticks that are counted one by one. The timelines
// are random, and small enough that everything happens in them.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "attribution/backlog.h"
#include "attribution_test_support.h"

namespace gcause {
namespace {

constexpr Ns kTicks = 3'000;
constexpr Ns kBudget = 40;
constexpr std::uint32_t kPid = 1;

// So that no two events of different kinds share a tick, each kind has its own residue of 4.
constexpr Ns kPauseEnds = 0, kPauseBegins = 1, kReads = 2, kWaits = 3;

struct Pause {
  std::uint32_t tid;
  Ns begin;
  Ns end;
  bool real;
  std::uint64_t id = 0;
  std::vector<std::pair<Ns, Ns>> windows = {};  ///< of the other threads; empty: all of it
  std::optional<std::int64_t> interpreter = {};
};

struct Chunk {
  std::uint64_t stream;
  std::uint32_t index;
  std::uint32_t tid;
  Ns read;
  std::optional<Ns> arrival;
};

struct Facts {
  std::vector<Pause> pauses;  ///< by end
  std::vector<Chunk> chunks;  ///< by read
  std::vector<WaitBegan> waits;
  std::vector<LockWaited> locks;
  std::vector<std::pair<Ns, Ns>> losses;
  std::map<std::uint64_t, std::optional<Ns>> request_ends;  ///< by stream
  std::set<std::uint64_t> mixed;  ///< streams of whose arrivals some are known and some are not
  std::map<std::uint32_t, std::int64_t> interpreters;  ///< of threads, where known
  bool hops = false;                                   ///< streams change between threads
};

/// Interpreters 0 and 2 share a lock; 1 has its own.
bool share_lock(std::int64_t one, std::int64_t other) { return (one == 1) == (other == 1); }

/// Whether the pause stops the thread in this tick.
bool stops(const Facts& facts, const Pause& pause, std::uint32_t tid, Ns tick) {
  if (!pause.real || tick < pause.begin || tick >= pause.end) return false;
  if (pause.tid == tid) return true;
  if (pause.interpreter && facts.interpreters.count(tid) > 0 &&
      !share_lock(*pause.interpreter, facts.interpreters.at(tid))) {
    return false;
  }
  bool in_window = pause.windows.empty();
  for (const auto& [begin, end] : pause.windows) in_window |= begin <= tick && tick < end;
  return in_window;
}

/// |P ∩ [from, to]|, P being the pauses that stop the thread.
Ns paused(const Facts& facts, std::uint32_t tid, Ns from, Ns to) {
  Ns sum = 0;
  for (Ns tick = from; tick < to; ++tick) {
    sum += std::any_of(facts.pauses.begin(), facts.pauses.end(),
                       [&](const Pause& pause) { return stops(facts, pause, tid, tick); });
  }
  return sum;
}

bool held_elsewhere(const Facts& facts, std::uint32_t tid, Ns tick) {
  for (const auto& pause : facts.pauses) {
    if (pause.tid != tid && stops(facts, pause, tid, tick)) return true;
  }
  return false;
}

/// A pause of another thread stands still over this instant: it begins before and ends behind it.
bool open_elsewhere(const Facts& facts, std::uint32_t tid, Ns tick) {
  for (const auto& pause : facts.pauses) {
    if (pause.tid != tid && stops(facts, pause, tid, tick - 1) && stops(facts, pause, tid, tick)) {
      return true;
    }
  }
  return false;
}

/// As far as pauses go.
Ns free_at(const Facts& facts, std::uint32_t tid, Ns read) {
  Ns tick = read;
  if (!open_elsewhere(facts, tid, read)) return read;
  while (held_elsewhere(facts, tid, tick)) ++tick;
  return tick;
}

/// And the lock, where the thread slept for one behind this very read.
Ns delivery_of(const Facts& facts, const Chunk& chunk) {
  Ns delivery = free_at(facts, chunk.tid, chunk.read);
  for (const auto& lock : facts.locks) {
    if (lock.tid != chunk.tid || lock.begin != chunk.read) continue;
    delivery = std::max(delivery, free_at(facts, chunk.tid, lock.end));
  }
  return delivery;
}

// ---- The timelines.

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}
  Ns between(Ns low, Ns high) { return std::uniform_int_distribution<Ns>(low, high)(engine_); }
  bool chance(int percent) { return between(1, 100) <= percent; }
  /// The next tick from `from` on that belongs to this kind of event.
  static Ns align(Ns from, Ns residue) {
    while (from % 4 != residue) ++from;
    return from;
  }

 private:
  std::mt19937 engine_;
};

/// Windows in which the other threads stand still, one behind the other inside of the pause.
void make_windows(Pause& pause, Dice& dice) {
  for (Ns at = pause.begin + dice.between(0, 10); at < pause.end; at += dice.between(1, 20)) {
    const Ns end = std::min(pause.end, at + dice.between(1, 30));
    pause.windows.push_back({at, end});
    at = end;
  }
}

/// A third of the timelines each: one lock for all; windows; interpreters, of which not every
/// thread's and every pause's is known.
void make_reach(Facts& facts, Dice& dice, std::uint32_t seed) {
  if (seed % 3 == 1) {
    for (auto& pause : facts.pauses) {
      if (pause.real && dice.chance(80)) make_windows(pause, dice);
    }
  } else if (seed % 3 == 2) {
    const std::map<std::uint32_t, std::int64_t> true_ones = {{1, 0}, {2, 1}, {3, 1}, {4, 2}};
    for (const auto& [tid, interpreter] : true_ones) {
      if (dice.chance(80)) facts.interpreters[tid] = interpreter;
    }
    for (auto& pause : facts.pauses) {
      if (dice.chance(90)) pause.interpreter = true_ones.at(pause.tid);
    }
  }
}

bool touches(const std::vector<Pause>& pauses, Ns begin, Ns end) {
  return std::any_of(pauses.begin(), pauses.end(),
                     [&](const Pause& p) { return p.begin <= end && begin <= p.end; });
}

/// Collections of threads 1 to 4; those of one thread do not overlap. A bracket that is none is
/// short and alone.
void make_pauses(Facts& facts, Dice& dice) {
  for (std::uint32_t tid = 1; tid <= 4; ++tid) {
    Ns at = dice.between(1, 200);
    while (at < kTicks - 200) {
      const Ns begin = Dice::align(at, kPauseBegins);
      const Ns end = Dice::align(begin + dice.between(1, dice.chance(20) ? 90 : 20), kPauseEnds);
      facts.pauses.push_back({tid, begin, end, true});
      at = end + dice.between(1, tid <= 2 ? 400 : 150);
    }
  }
  for (int i = 0; i < 20; ++i) {
    const Ns begin = Dice::align(dice.between(1, kTicks - 200), kPauseBegins);
    const Ns end = Dice::align(begin + 1, kPauseEnds);
    if (touches(facts.pauses, begin, end)) continue;
    facts.pauses.push_back({static_cast<std::uint32_t>(dice.between(1, 4)), begin, end, false});
  }
  std::sort(facts.pauses.begin(), facts.pauses.end(),
            [](const Pause& a, const Pause& b) { return a.end < b.end; });
  std::uint64_t id = 0;
  for (auto& pause : facts.pauses) {
    if (pause.real) pause.id = ++id;
  }
}

/// A thread cannot read, wait or be held while it is itself in a bracket.
bool busy(const Facts& facts, std::uint32_t tid, Ns from, Ns to) {
  for (const auto& pause : facts.pauses) {
    if (pause.tid == tid && pause.begin <= to && from <= pause.end) return true;
  }
  return false;
}

bool in_none(const Facts& facts, Ns tick) {
  for (const auto& pause : facts.pauses) {
    if (!pause.real && pause.begin <= tick && tick <= pause.end) return true;
  }
  return false;
}

struct Read {
  Ns at;
  std::uint32_t tid;
};

/// When threads 1 and 2 read, and when they wait between their reads.
std::vector<Read> make_reads(Facts& facts, Dice& dice) {
  std::vector<Read> reads;
  for (std::uint32_t tid = 1; tid <= 2; ++tid) {
    for (Ns at = dice.between(1, 30); at < kTicks - 250; at += dice.between(1, 60)) {
      const Ns read = Dice::align(at, kReads);
      Ns delivery = free_at(facts, tid, read);
      if (busy(facts, tid, read, delivery)) continue;
      reads.push_back({read, tid});
      const Ns lock_end = delivery + dice.between(1, 30);
      const bool slept = dice.chance(25) && !busy(facts, tid, read, free_at(facts, tid, lock_end));
      if (slept) {
        // Woken before, and asleep again.
        facts.locks.push_back({read, dice.between(read, lock_end), kPid, tid});
        facts.locks.push_back({read, lock_end, kPid, tid});
        delivery = free_at(facts, tid, lock_end);
      }
      // Now and then the wait comes early (before the delivery), late or not at all.
      const Ns wait =
          Dice::align((dice.chance(10) && !slept ? read : delivery) + dice.between(1, 40), kWaits);
      at = std::max(delivery, wait);
      if (dice.chance(90) && !busy(facts, tid, wait, wait) && !in_none(facts, wait)) {
        facts.waits.push_back({wait, kPid, tid});
      }
    }
  }
  std::sort(reads.begin(), reads.end(), [](const Read& a, const Read& b) { return a.at < b.at; });
  return reads;
}

/// Streams 1 and 2 are read by thread 1, streams 3 and 4 by thread 2; in half of the timelines now
/// and then by the other.
void make_chunks(Facts& facts, Dice& dice, const std::vector<Read>& reads) {
  std::map<std::uint64_t, Ns> last_arrival;
  std::map<std::uint64_t, std::uint32_t> next_index;
  std::map<std::uint64_t, int> known;
  for (std::uint64_t stream = 1; stream <= 4; ++stream) {
    known[stream] = dice.chance(60) ? 100 : dice.chance(50) ? 0 : 70;
    if (known[stream] == 70) facts.mixed.insert(stream);
    facts.request_ends[stream] =
        dice.chance(80) ? std::optional<Ns>(dice.between(-50, 0)) : std::nullopt;
    last_arrival[stream] = 0;
  }
  for (const auto& read : reads) {
    const auto owner = !facts.hops || dice.chance(90) ? read.tid : 3 - read.tid;
    const auto stream = static_cast<std::uint64_t>(2 * owner - dice.between(0, 1));
    const auto count = dice.chance(70) ? 1 : dice.between(2, 4);
    for (int i = 0; i < count; ++i) {
      const Ns earliest = std::max(last_arrival[stream], read.at - 80);
      last_arrival[stream] = dice.between(std::min(earliest, read.at), read.at);
      Chunk chunk{stream, next_index[stream]++, read.tid, read.at, last_arrival[stream]};
      if (!dice.chance(known[stream])) chunk.arrival.reset();
      facts.chunks.push_back(chunk);
    }
  }
}

Facts make_facts(std::uint32_t seed) {
  Dice dice(seed);
  Facts facts;
  facts.hops = seed % 2 == 1;
  make_pauses(facts, dice);
  make_reach(facts, dice, seed);
  make_chunks(facts, dice, make_reads(facts, dice));
  if (dice.chance(50)) {
    for (Ns at = dice.between(0, 1'000); at < kTicks; at += dice.between(100, 1'500)) {
      facts.losses.push_back({at, at + dice.between(0, 30)});
      at = facts.losses.back().second + 1;
    }
  }
  return facts;
}

std::vector<TimelineEvent> timeline_of(const Facts& facts) {
  std::vector<std::pair<Ns, TimelineEvent>> events;
  SessionStarted session{};
  session.budget = kBudget;
  ProcessFollowed process{};
  process.pid = kPid;
  events.push_back({-100, session});
  events.push_back({-100, process});
  for (std::int64_t i = 0; i < 3; ++i) {
    events.push_back({-100, InterpreterFound{-100, kPid, i, i == 2 ? 0 : i}});
  }
  for (const auto& [tid, interpreter] : facts.interpreters) {
    events.push_back({-100, ThreadFound{-100, kPid, tid, interpreter}});
  }
  for (const auto& [id, request_end] : facts.request_ends) {
    StreamBegan began{};
    began.id = id;
    began.pid = kPid;
    began.request_end = request_end;
    events.push_back({0, began});
    const StreamEnded ended{id, kPid, kTicks, StreamEnd::done, std::nullopt, 0, 0};
    if (id % 2 == 0) events.push_back({kTicks, ended});
  }
  for (const auto& [from, to] : facts.losses) {
    events.push_back({from, Lost{std::nullopt, "ring", 1, from, to}});
  }
  for (const auto& p : facts.pauses) {
    events.push_back({p.begin, PauseBegan{p.begin, kPid, p.tid}});
    PauseEnded ended{};
    ended.id = p.id;
    ended.pid = kPid;
    ended.tid = p.tid;
    ended.interpreter = p.interpreter;
    ended.begin = p.begin;
    ended.end = p.real ? p.end : p.begin;
    for (const auto& [begin, end] : p.windows) ended.world_stops.push_back({begin, end});
    events.push_back({p.end, ended});
  }
  for (const auto& c : facts.chunks) {
    events.push_back({c.read, ChunkRead{c.stream, c.index, kPid, c.tid, 8, c.read, c.arrival}});
  }
  for (const auto& wait : facts.waits) events.push_back({wait.at, wait});
  for (const auto& lock : facts.locks) events.push_back({lock.end, lock});
  events.push_back({kTicks + 1, RecordingEnded{kTicks + 1}});
  std::stable_sort(events.begin(), events.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<TimelineEvent> timeline;
  for (auto& [at, event] : events) timeline.push_back(std::move(event));
  return timeline;
}

// ---- The reference.

struct Expected {
  std::map<std::pair<std::uint64_t, std::uint32_t>, GapFinding> gaps;
  std::map<std::pair<std::uint64_t, std::uint32_t>, ChunkFinding> chunks;
  std::vector<Ns> gap_lengths, but_for_lengths, first_chunks, first_but_for;
  std::map<Verdict, std::uint64_t> verdicts;
  std::uint64_t over_budget = 0, unjudged = 0;
};

bool has_loss(const Facts& facts, Ns from, Ns to) {
  for (const auto& [lost_from, lost_to] : facts.losses) {
    if (lost_from <= to && from <= lost_to) return true;
  }
  return false;
}

std::optional<Ns> held_of(const Facts& facts, const Chunk& chunk, Ns delivery) {
  std::optional<Ns> wait;
  for (const auto& [at, pid, tid, run_delay] : facts.waits) {
    if (tid == chunk.tid && at > chunk.read && (!wait || at < *wait)) wait = at;
  }
  if (!wait) return std::nullopt;
  return paused(facts, chunk.tid, delivery, *wait);
}

Verdict verdict_of(Ns g, Ns upstream, Ns charged, Ns process) {
  if (g - charged <= kBudget) return Verdict::gc;
  if (static_cast<double>(charged) >= 0.1 * static_cast<double>(g)) return Verdict::gc_partial;
  if (upstream >= process) return Verdict::upstream;
  return Verdict::process;
}

GapFinding gap_of(const Facts& facts, const Chunk& chunk, Ns before, Ns delivery) {
  GapFinding gap;
  gap.from = before;
  gap.to = delivery;
  gap.gap = delivery - before;
  gap.basis = chunk.arrival ? Basis::arrival : Basis::overlap;
  const Ns a = chunk.arrival.value_or(before);
  gap.charged = paused(facts, chunk.tid, std::max(a, before), delivery);
  gap.upstream = std::max<Ns>(0, a - before);
  gap.process = gap.gap - gap.upstream - gap.charged;
  gap.but_for = gap.gap - gap.charged;
  for (const auto& pause : facts.pauses) {
    if (!pause.real) continue;
    Ns inside = 0, counted = 0;
    for (Ns tick = pause.begin; tick < pause.end; ++tick) {
      inside += before <= tick && tick < delivery;
      counted +=
          std::max(a, before) <= tick && tick < delivery && stops(facts, pause, chunk.tid, tick);
    }
    if (counted > 0) {
      gap.pauses.push_back({pause.id, counted});
    } else if (inside > 0) {
      gap.exonerated.push_back(pause.id);
    }
  }
  gap.over_budget = gap.gap > kBudget;
  if (gap.over_budget && !has_loss(facts, before, delivery)) {
    gap.verdict = verdict_of(gap.gap, gap.upstream, gap.charged, gap.process);
  }
  return gap;
}

/// The chunks behind the newest gap above the budget that had queued behind it, without a hole.
void count_bursts(Expected& expected, const std::vector<Chunk>& chunks) {
  GapFinding* open = nullptr;
  for (const auto& chunk : chunks) {
    const Ns delivery = expected.chunks.at({chunk.stream, chunk.index}).delivery;
    if (open) {
      const bool queued = chunk.arrival ? *chunk.arrival <= open->to : delivery == open->to;
      if (queued) {
        ++open->burst;
      } else {
        open = nullptr;
      }
    }
    const auto gap = expected.gaps.find({chunk.stream, chunk.index});
    if (gap != expected.gaps.end() && gap->second.over_budget) open = &gap->second;
  }
}

/// When each chunk would have been delivered without the pauses. Queues behind a pause are those of
/// a thread, over all of its streams; backlog_test.cpp tests their arithmetic.
std::map<std::pair<std::uint64_t, std::uint32_t>, Ns> but_for_deliveries(const Facts& facts) {
  std::map<std::pair<std::uint64_t, std::uint32_t>, Ns> result;
  std::map<std::uint64_t, Ns> before;  // by stream
  std::map<std::uint32_t, Ns> before_in_thread;
  std::map<std::uint32_t, Backlog> backlogs;
  for (const auto& chunk : facts.chunks) {
    const Ns d = std::max(delivery_of(facts, chunk), before[chunk.stream]);
    const bool first = before[chunk.stream] == 0;
    const Ns a = chunk.arrival.value_or(first ? d : before[chunk.stream]);
    const Ns paused_for = paused(facts, chunk.tid, a, d);
    const Ns since = std::exchange(before_in_thread[chunk.tid], d);
    if (!chunk.arrival) backlogs[chunk.tid].forget();
    result[{chunk.stream, chunk.index}] =
        !chunk.arrival
            ? d - paused_for
            : backlogs[chunk.tid].but_for({a, d, paused_for, paused(facts, chunk.tid, since, d)});
    before[chunk.stream] = d;
  }
  return result;
}

void judge_stream(Expected& expected, const Facts& facts, std::uint64_t stream) {
  const auto but_for_all = but_for_deliveries(facts);
  std::vector<Chunk> chunks;
  for (const auto& chunk : facts.chunks) {
    if (chunk.stream == stream) chunks.push_back(chunk);
  }
  std::optional<Ns> before, but_for_before;
  for (const auto& chunk : chunks) {
    // Never before the chunk in front of it, which another thread may have read that stood still.
    const Ns d = std::max(delivery_of(facts, chunk), before.value_or(0));
    const Ns but_for_d = but_for_all.at({stream, chunk.index});
    const auto held = held_of(facts, chunk, d);
    expected.chunks[{stream, chunk.index}] = {{}, d, held};
    if (before) {
      auto gap = gap_of(facts, chunk, *before, d);
      gap.held = held;
      if (has_loss(facts, *before, d)) {
        expected.unjudged += gap.over_budget;
      } else {
        expected.gap_lengths.push_back(gap.gap);
        // Of a chunk without a known arrival the gap's own but-for stands in. Below zero only where
        // an unknown arrival stands in front of a known one: counted as none.
        expected.but_for_lengths.push_back(
            chunk.arrival ? std::max<Ns>(0, but_for_d - *but_for_before) : gap.but_for);
        expected.over_budget += gap.over_budget;
        if (gap.verdict) ++expected.verdicts[*gap.verdict];
      }
      expected.gaps[{stream, chunk.index}] = gap;
    } else if (facts.request_ends.at(stream)) {
      const Ns from = *facts.request_ends.at(stream);
      expected.first_chunks.push_back(d - from);
      expected.first_but_for.push_back(
          d - from - paused(facts, chunk.tid, std::max(from, chunk.arrival.value_or(from)), d));
    }
    before = d;
    but_for_before = but_for_d;
  }
  count_bursts(expected, chunks);
}

Expected judge_all(const Facts& facts) {
  Expected expected;
  for (std::uint64_t stream = 1; stream <= 4; ++stream) judge_stream(expected, facts, stream);
  return expected;
}

/// The smallest value that at least `percent` of all values do not exceed.
Ns nearest_rank(std::vector<Ns> values, std::size_t percent) {
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (100 * (i + 1) >= percent * values.size()) return values[i];
  }
  return 0;
}

// ---- The comparison.

void compare(const Distribution& found, const std::vector<Ns>& values) {
  CHECK(found.count == values.size());
  CHECK(found.p50 == nearest_rank(values, 50));
  CHECK(found.p90 == nearest_rank(values, 90));
  CHECK(found.p99 == nearest_rank(values, 99));
  CHECK(found.max == nearest_rank(values, 100));
}

void compare(const GapFinding& found, const GapFinding& wanted, bool with_burst) {
  CAPTURE(found.stream, found.index);
  CHECK(found.from == wanted.from);
  CHECK(found.to == wanted.to);
  CHECK(found.gap == wanted.gap);
  CHECK(found.upstream == wanted.upstream);
  CHECK(found.charged == wanted.charged);
  CHECK(found.process == wanted.process);
  CHECK(found.but_for == wanted.but_for);
  CHECK(found.held == wanted.held);
  CHECK(found.over_budget == wanted.over_budget);
  CHECK(found.verdict == wanted.verdict);
  CHECK(found.basis == wanted.basis);
  CHECK(test::charges(found) == test::charges(wanted));
  CHECK(std::set(found.exonerated.begin(), found.exonerated.end()) ==
        std::set(wanted.exonerated.begin(), wanted.exonerated.end()));
  if (with_burst) CHECK(found.burst == wanted.burst);
}

/// Findings of each stream: chunks by index, each with its gap right behind it, then its own.
void check_order(const std::vector<Finding>& findings) {
  std::map<std::uint64_t, std::uint32_t> next;
  std::set<std::uint64_t> ended;
  const ChunkFinding* last = nullptr;
  for (const auto& finding : findings) {
    if (const auto* chunk = std::get_if<ChunkFinding>(&finding)) {
      CHECK(ended.count(chunk->chunk.stream) == 0);
      CHECK(chunk->chunk.index == next[chunk->chunk.stream]++);
      last = chunk;
    } else if (const auto* gap = std::get_if<GapFinding>(&finding)) {
      REQUIRE(last);
      CHECK(gap->stream == last->chunk.stream);
      CHECK(gap->index == last->chunk.index);
    } else if (const auto* stream = std::get_if<StreamFinding>(&finding)) {
      CHECK(ended.insert(stream->began.id).second);
      CHECK(stream->chunks == next[stream->began.id]);
    }
  }
  CHECK(ended.size() == 4);
}

TEST_CASE("attribution agrees with a reference on random timelines") {
  const auto seed = GENERATE(range(1u, 201u));
  CAPTURE(seed);
  const auto facts = make_facts(seed);
  const auto expected = judge_all(facts);
  REQUIRE(expected.gaps.size() > 20);

  std::vector<Finding> findings;
  Attribution attribution([&](const Finding& finding) { findings.push_back(finding); });
  for (const auto& event : timeline_of(facts)) attribution.consume(event);
  attribution.finish();

  const auto chunks = test::only<ChunkFinding>(findings);
  CHECK(chunks.size() == expected.chunks.size());
  for (const auto& found : chunks) {
    const auto& wanted = expected.chunks.at({found.chunk.stream, found.chunk.index});
    CAPTURE(found.chunk.stream, found.chunk.index);
    CHECK(found.delivery == wanted.delivery);
    CHECK(found.held == wanted.held);
  }
  const auto gaps = test::only<GapFinding>(findings);
  CHECK(gaps.size() == expected.gaps.size());
  for (const auto& gap : gaps) {
    compare(gap, expected.gaps.at({gap.stream, gap.index}), facts.mixed.count(gap.stream) == 0);
  }
  check_order(findings);

  const auto summary = test::only<SummaryFinding>(findings).at(0);
  compare(summary.gap, expected.gap_lengths);
  // A chunk that waits for another thread's in front of it leaves the order of its thread's queue.
  if (!facts.hops) compare(summary.but_for, expected.but_for_lengths);
  compare(summary.first_chunk, expected.first_chunks);
  compare(summary.first_chunk_but_for, expected.first_but_for);
  CHECK(summary.verdicts == expected.verdicts);
  CHECK(summary.over_budget == expected.over_budget);
  CHECK(summary.unjudged == expected.unjudged);
}

TEST_CASE("the random timelines contain what they are there for") {
  std::uint64_t moved = 0, exonerated = 0, overlapping = 0, unjudged = 0, bursts = 0, held = 0;
  std::uint64_t spared = 0;
  std::map<Verdict, std::uint64_t> verdicts;
  for (std::uint32_t seed = 1; seed <= 50; ++seed) {
    const auto facts = make_facts(seed);
    const auto expected = judge_all(facts);
    for (const auto& chunk : facts.chunks) {
      moved += expected.chunks.at({chunk.stream, chunk.index}).delivery > chunk.read;
    }
    for (const auto& [place, gap] : expected.gaps) {
      Ns sum = 0;
      for (const auto& pause : gap.pauses) sum += pause.charged;
      overlapping += sum > gap.charged;
      exonerated += !gap.exonerated.empty();
      bursts += gap.burst > 1;
      held += gap.held.value_or(0) > 0;
      // Pauses lie behind the arrival and leave this thread alone.
      Ns anyone = 0;
      for (Ns tick = gap.from + gap.upstream; tick < gap.to; ++tick) {
        anyone += std::any_of(facts.pauses.begin(), facts.pauses.end(), [&](const Pause& p) {
          return p.real && p.begin <= tick && tick < p.end;
        });
      }
      spared += anyone > gap.charged;
    }
    unjudged += expected.unjudged;
    for (const auto& [verdict, count] : expected.verdicts) verdicts[verdict] += count;
  }
  CHECK(moved > 200);
  CHECK(exonerated > 200);
  CHECK(overlapping > 200);
  CHECK(unjudged > 20);
  CHECK(bursts > 100);
  CHECK(held > 200);
  CHECK(spared > 200);
  CHECK(verdicts.size() == 4);
  for (const auto& [verdict, count] : verdicts) CHECK(count > 20);
}

}  // namespace
}  // namespace gcause
