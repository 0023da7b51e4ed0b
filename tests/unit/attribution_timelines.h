// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <utility>
#include <vector>

#include "attribution_test_support.h"

namespace gcause::test::reference {

// Random timelines, and the first of what follows from them, counted tick by tick: where pauses
// stop a thread, and when it goes on.

inline constexpr Ns kTicks = 3'000;
inline constexpr Ns kBudget = 40;
inline constexpr std::uint32_t kPid = 1;

// So that no two events of different kinds share a tick, each kind has its own residue of 4.
inline constexpr Ns kPauseEnds = 0, kPauseBegins = 1, kReads = 2, kWaits = 3;

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
  bool written = false;
  std::optional<ChunkPlace> source = {};
};

inline constexpr std::uint64_t kStreams = 6;  ///< the last two are written
constexpr bool is_written(std::uint64_t stream) { return stream > 4; }

struct Facts {
  std::vector<Pause> pauses;  ///< by end
  std::vector<Chunk> chunks;  ///< by read, or write
  std::vector<WaitBegan> waits;
  std::vector<LockWaited> locks;
  std::vector<std::pair<Ns, Ns>> losses;
  std::map<std::uint64_t, std::optional<Ns>> request_ends;  ///< by stream
  std::set<std::uint64_t> mixed;  ///< streams of whose arrivals some are known and some are not
  std::map<std::uint32_t, std::int64_t> interpreters;  ///< of threads, where known
  bool hops = false;                                   ///< streams change between threads
};

/// Interpreters 0 and 2 share a lock; 1 has its own.
inline bool share_lock(std::int64_t one, std::int64_t other) { return (one == 1) == (other == 1); }

/// Whether the pause stops the thread in this tick.
inline bool stops(const Facts& facts, const Pause& pause, std::uint32_t tid, Ns tick) {
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
inline Ns paused(const Facts& facts, std::uint32_t tid, Ns from, Ns to) {
  Ns sum = 0;
  for (Ns tick = from; tick < to; ++tick) {
    sum += std::any_of(facts.pauses.begin(), facts.pauses.end(),
                       [&](const Pause& pause) { return stops(facts, pause, tid, tick); });
  }
  return sum;
}

inline bool held_elsewhere(const Facts& facts, std::uint32_t tid, Ns tick) {
  for (const auto& pause : facts.pauses) {
    if (pause.tid != tid && stops(facts, pause, tid, tick)) return true;
  }
  return false;
}

/// A pause of another thread stands still over this instant: it begins before and ends behind it.
inline bool open_elsewhere(const Facts& facts, std::uint32_t tid, Ns tick) {
  for (const auto& pause : facts.pauses) {
    if (pause.tid != tid && stops(facts, pause, tid, tick - 1) && stops(facts, pause, tid, tick)) {
      return true;
    }
  }
  return false;
}

/// As far as pauses go.
inline Ns free_at(const Facts& facts, std::uint32_t tid, Ns read) {
  Ns tick = read;
  if (!open_elsewhere(facts, tid, read)) return read;
  while (held_elsewhere(facts, tid, tick)) ++tick;
  return tick;
}

/// And the lock, where the thread slept for one behind this very read. A written chunk is delivered
/// when it is written.
inline Ns delivery_of(const Facts& facts, const Chunk& chunk) {
  if (chunk.written) return chunk.read;
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
inline void make_windows(Pause& pause, Dice& dice) {
  for (Ns at = pause.begin + dice.between(0, 10); at < pause.end; at += dice.between(1, 20)) {
    const Ns end = std::min(pause.end, at + dice.between(1, 30));
    pause.windows.push_back({at, end});
    at = end;
  }
}

/// A third of the timelines each: one lock for all; windows; interpreters, of which not every
/// thread's and every pause's is known.
inline void make_reach(Facts& facts, Dice& dice, std::uint32_t seed) {
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

inline bool touches(const std::vector<Pause>& pauses, Ns begin, Ns end) {
  return std::any_of(pauses.begin(), pauses.end(),
                     [&](const Pause& p) { return p.begin <= end && begin <= p.end; });
}

/// Collections of threads 1 to 4; those of one thread do not overlap. A bracket that is none is
/// short and alone.
inline void make_pauses(Facts& facts, Dice& dice) {
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
inline bool busy(const Facts& facts, std::uint32_t tid, Ns from, Ns to) {
  for (const auto& pause : facts.pauses) {
    if (pause.tid == tid && pause.begin <= to && from <= pause.end) return true;
  }
  return false;
}

inline bool in_none(const Facts& facts, Ns tick) {
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
inline std::vector<Read> make_reads(Facts& facts, Dice& dice) {
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
inline void make_chunks(Facts& facts, Dice& dice, const std::vector<Read>& reads) {
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

/// Each chunk that was read, by the time at which its thread, and those of the chunks in front of
/// it in its stream, had gone on.
inline std::vector<std::pair<Ns, ChunkPlace>> possible_sources(const Facts& facts) {
  std::map<std::uint64_t, Ns> free;
  std::vector<std::pair<Ns, ChunkPlace>> places;
  for (const auto& chunk : facts.chunks) {
    free[chunk.stream] = std::max(free[chunk.stream], delivery_of(facts, chunk));
    places.push_back({free[chunk.stream], {chunk.stream, chunk.index}});
  }
  std::stable_sort(places.begin(), places.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  return places;
}

/// Streams 5 and 6 are written by threads 1 and 2, now and then by the other, when they are in no
/// collection of their own. Most of their chunks pass one on that was read a little earlier.
inline void make_written_chunks(Facts& facts, Dice& dice) {
  const auto sources = possible_sources(facts);
  std::map<std::uint64_t, std::uint32_t> next_index;
  for (std::uint64_t stream = 5; stream <= kStreams; ++stream) {
    facts.request_ends[stream] =
        dice.chance(80) ? std::optional<Ns>(dice.between(-50, 0)) : std::nullopt;
    const int known = dice.chance(70) ? 100 : 60;
    if (known != 100) facts.mixed.insert(stream);
    for (Ns at = dice.between(1, 60); at < kTicks - 100; at += dice.between(1, 70)) {
      at = Dice::align(at, kReads);
      const auto owner = static_cast<std::uint32_t>(stream - 4);
      const auto tid = !facts.hops || dice.chance(90) ? owner : 3 - owner;
      if (busy(facts, tid, at, at)) continue;
      Chunk chunk{stream, next_index[stream]++, tid, at, std::nullopt, true};
      if (dice.chance(known)) chunk.arrival = dice.between(std::max<Ns>(0, at - 80), at);
      const Ns count = std::count_if(sources.begin(), sources.end(),
                                     [&](const auto& source) { return source.first < at; });
      if (count > 0 && dice.chance(80)) {
        const Ns behind = dice.between(1, std::min<Ns>(count, 6));
        chunk.source = sources[static_cast<std::size_t>(count - behind)].second;
      }
      facts.chunks.push_back(chunk);
    }
  }
  std::stable_sort(facts.chunks.begin(), facts.chunks.end(),
                   [](const Chunk& a, const Chunk& b) { return a.read < b.read; });
}

inline Facts make_facts(std::uint32_t seed) {
  Dice dice(seed);
  Facts facts;
  facts.hops = seed % 2 == 1;
  make_pauses(facts, dice);
  make_reach(facts, dice, seed);
  make_chunks(facts, dice, make_reads(facts, dice));
  make_written_chunks(facts, dice);
  if (dice.chance(50)) {
    for (Ns at = dice.between(0, 1'000); at < kTicks; at += dice.between(100, 1'500)) {
      facts.losses.push_back({at, at + dice.between(0, 30)});
      at = facts.losses.back().second + 1;
    }
  }
  return facts;
}

inline std::vector<TimelineEvent> timeline_of(const Facts& facts) {
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
    began.direction = is_written(id) ? StreamDirection::write : StreamDirection::read;
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
    ChunkRead chunk{c.stream, c.index, kPid, c.tid, 8, c.read, c.arrival};
    chunk.source = c.source;
    events.push_back({c.read, chunk});
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

}  // namespace gcause::test::reference
