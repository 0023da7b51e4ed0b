// SPDX-License-Identifier: Apache-2.0
//
// Attribution against a second implementation of the formulas, written slowly and obviously: time
// is a row of ticks, and a length is the number of ticks that are counted one by one. The timelines
// are random, and small enough that everything happens in them.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "attribution/backlog.h"
#include "attribution_test_support.h"
#include "attribution_timelines.h"

namespace gcause {
namespace {

using namespace test::reference;

// ---- The reference.

/// What a summary says, of all streams or of those of one direction.
struct Sums {
  std::vector<Ns> gap_lengths, but_for_lengths, first_chunks, first_but_for, since_source;
  std::map<Verdict, std::uint64_t> verdicts;
  std::uint64_t over_budget = 0, unjudged = 0;
};

struct Expected {
  std::map<std::pair<std::uint64_t, std::uint32_t>, GapFinding> gaps;
  std::map<std::pair<std::uint64_t, std::uint32_t>, ChunkFinding> chunks;
  Sums all, read, written;
};

bool has_loss(const Facts& facts, Ns from, Ns to) {
  for (const auto& [lost_from, lost_to] : facts.losses) {
    if (lost_from <= to && from <= lost_to) return true;
  }
  return false;
}

/// When the chunk behind this one is written, or the stream ends; for ever if it is read.
Ns end_of_wait(const Facts& facts, const Chunk& chunk) {
  if (!chunk.written) return 2 * kTicks;
  for (const auto& next : facts.chunks) {
    if (next.stream == chunk.stream && next.index == chunk.index + 1) return next.read;
  }
  return chunk.stream % 2 == 0 ? kTicks : 2 * kTicks;
}

std::optional<Ns> held_of(const Facts& facts, const Chunk& chunk, Ns delivery) {
  std::optional<Ns> wait;
  for (const auto& [at, pid, tid, run_delay] : facts.waits) {
    if (tid == chunk.tid && at > chunk.read && (!wait || at < *wait)) wait = at;
  }
  if (!wait || *wait > end_of_wait(facts, chunk)) return std::nullopt;
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
/// a thread, over all of its streams of one direction; backlog_test.cpp tests their arithmetic.
std::map<std::pair<std::uint64_t, std::uint32_t>, Ns> but_for_deliveries(const Facts& facts) {
  std::map<std::pair<std::uint64_t, std::uint32_t>, Ns> result;
  std::map<std::uint64_t, Ns> before;  // by stream
  std::map<std::pair<std::uint32_t, bool>, Ns> before_in_thread;
  std::map<std::pair<std::uint32_t, bool>, Backlog> backlogs;
  for (const auto& chunk : facts.chunks) {
    const std::pair queue{chunk.tid, chunk.written};
    const Ns d = std::max(delivery_of(facts, chunk), before[chunk.stream]);
    const bool first = before[chunk.stream] == 0;
    const Ns a = chunk.arrival.value_or(first ? d : before[chunk.stream]);
    const Ns paused_for = paused(facts, chunk.tid, a, d);
    const Ns since = std::exchange(before_in_thread[queue], d);
    if (!chunk.arrival) backlogs[queue].forget();
    result[{chunk.stream, chunk.index}] =
        !chunk.arrival
            ? d - paused_for
            : backlogs[queue].but_for({a, d, paused_for, paused(facts, chunk.tid, since, d)});
    before[chunk.stream] = d;
  }
  return result;
}

void judge_gap(Sums& sums, const Facts& facts, const GapFinding& gap, Ns but_for) {
  if (has_loss(facts, gap.from, gap.to)) {
    sums.unjudged += gap.over_budget;
    return;
  }
  sums.gap_lengths.push_back(gap.gap);
  sums.but_for_lengths.push_back(but_for);
  sums.over_budget += gap.over_budget;
  if (gap.verdict) ++sums.verdicts[*gap.verdict];
}

std::optional<Ns> since_source(const Expected& expected, const Chunk& chunk, Ns delivery) {
  if (!chunk.source) return std::nullopt;
  return delivery - expected.chunks.at({chunk.source->stream, chunk.source->index}).delivery;
}

void judge_stream(Expected& expected, const Facts& facts, std::uint64_t stream) {
  const auto but_for_all = but_for_deliveries(facts);
  std::vector<Chunk> chunks;
  for (const auto& chunk : facts.chunks) {
    if (chunk.stream == stream) chunks.push_back(chunk);
  }
  const std::array sums = {&expected.all, is_written(stream) ? &expected.written : &expected.read};
  std::optional<Ns> before, but_for_before;
  for (const auto& chunk : chunks) {
    // Never before the chunk in front of it, which another thread may have read that stood still.
    const Ns d = std::max(delivery_of(facts, chunk), before.value_or(0));
    const Ns but_for_d = but_for_all.at({stream, chunk.index});
    const auto held = held_of(facts, chunk, d);
    const auto since = since_source(expected, chunk, d);
    expected.chunks[{stream, chunk.index}] = {{}, d, held, since};
    for (auto* sum : sums) {
      if (since) sum->since_source.push_back(*since);
    }
    if (before) {
      auto gap = gap_of(facts, chunk, *before, d);
      gap.held = held;
      expected.gaps[{stream, chunk.index}] = gap;
      // Of a chunk without a known arrival the gap's own but-for stands in. Below zero only where
      // an unknown arrival stands in front of a known one: counted as none.
      const Ns but_for = chunk.arrival ? std::max<Ns>(0, but_for_d - *but_for_before) : gap.but_for;
      for (auto* sum : sums) judge_gap(*sum, facts, gap, but_for);
    } else if (facts.request_ends.at(stream)) {
      const Ns from = *facts.request_ends.at(stream);
      const Ns but_for =
          d - from - paused(facts, chunk.tid, std::max(from, chunk.arrival.value_or(from)), d);
      for (auto* sum : sums) {
        sum->first_chunks.push_back(d - from);
        sum->first_but_for.push_back(but_for);
      }
    }
    before = d;
    but_for_before = but_for_d;
  }
  count_bursts(expected, chunks);
}

Expected judge_all(const Facts& facts) {
  Expected expected;
  for (std::uint64_t stream = 1; stream <= kStreams; ++stream) {
    judge_stream(expected, facts, stream);
  }
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

void compare(const StreamTotals& found, const Sums& wanted, bool with_but_for) {
  compare(found.gap, wanted.gap_lengths);
  if (with_but_for) compare(found.but_for, wanted.but_for_lengths);
  compare(found.first_chunk, wanted.first_chunks);
  compare(found.first_chunk_but_for, wanted.first_but_for);
  compare(found.since_source, wanted.since_source);
  CHECK(found.verdicts == wanted.verdicts);
  CHECK(found.over_budget == wanted.over_budget);
  CHECK(found.unjudged == wanted.unjudged);
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
  CHECK(ended.size() == kStreams);
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
    CHECK(found.held.value_or(-1) == wanted.held.value_or(-1));
    CHECK(found.since_source == wanted.since_source);
  }
  const auto gaps = test::only<GapFinding>(findings);
  CHECK(gaps.size() == expected.gaps.size());
  for (const auto& gap : gaps) {
    compare(gap, expected.gaps.at({gap.stream, gap.index}), facts.mixed.count(gap.stream) == 0);
  }
  check_order(findings);

  const auto summary = test::only<SummaryFinding>(findings).at(0);
  // A chunk that waits for another thread's in front of it leaves the order of its thread's queue.
  compare(summary, expected.all, !facts.hops);
  compare(summary.by_direction.at(StreamDirection::read), expected.read, !facts.hops);
  compare(summary.by_direction.at(StreamDirection::write), expected.written, !facts.hops);
  for (const auto& [direction, totals] : summary.by_direction) {
    CHECK(totals.budget_kept == (totals.gap.p99 <= kBudget));
    CHECK(totals.but_for_kept == (totals.but_for.p99 <= kBudget));
  }
}

TEST_CASE("the random timelines contain what they are there for") {
  std::uint64_t moved = 0, exonerated = 0, overlapping = 0, unjudged = 0, bursts = 0, held = 0;
  std::uint64_t spared = 0, passed_on = 0, written_held = 0;
  std::map<Verdict, std::uint64_t> verdicts, written;
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
    unjudged += expected.all.unjudged;
    passed_on += expected.written.since_source.size();
    for (const auto& [verdict, count] : expected.read.verdicts) verdicts[verdict] += count;
    for (const auto& [verdict, count] : expected.written.verdicts) written[verdict] += count;
    for (const auto& chunk : facts.chunks) {
      const auto found = expected.chunks.at({chunk.stream, chunk.index}).held;
      written_held += chunk.written && found.value_or(0) > 0;
    }
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
  CHECK(passed_on > 500);
  CHECK(written_held > 50);
  CHECK(written.size() == 4);
  for (const auto& [verdict, count] : written) CHECK(count > 20);
}

}  // namespace
}  // namespace gcause
