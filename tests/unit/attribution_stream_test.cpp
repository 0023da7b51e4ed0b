// SPDX-License-Identifier: Apache-2.0
//
// What attribution says about streams and processes: bursts, order, losses, distributions.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "attribution_test_support.h"

namespace gcause {
namespace {

using test::Court;
using test::ms;
using test::only;

constexpr auto kReader = Court::kReader;
constexpr auto kOther = Court::kOther;

/// The findings as short words: "c1.0" chunk, "g1.1" gap, "s1" stream, "p1" pause, "l" lost,
/// "E" the end of the recording, "S" summary.
std::vector<std::string> words(const std::vector<Finding>& findings) {
  const auto place = [](auto stream, auto index) {
    return std::to_string(stream) + "." + std::to_string(index);
  };
  std::vector<std::string> out;
  for (const auto& finding : findings) {
    if (const auto* c = std::get_if<ChunkFinding>(&finding)) {
      out.push_back("c" + place(c->chunk.stream, c->chunk.index));
    } else if (const auto* g = std::get_if<GapFinding>(&finding)) {
      out.push_back("g" + place(g->stream, g->index));
    } else if (const auto* s = std::get_if<StreamFinding>(&finding)) {
      out.push_back("s" + std::to_string(s->began.id));
    } else if (const auto* p = std::get_if<PauseFinding>(&finding)) {
      out.push_back("p" + std::to_string(p->pause.id));
    } else if (std::holds_alternative<SummaryFinding>(finding)) {
      out.push_back("S");
    } else {
      out.push_back(std::holds_alternative<Lost>(finding) ? "l" : "E");
    }
  }
  return out;
}
using Words = std::vector<std::string>;

TEST_CASE("a burst is what had arrived before the delivery at the end of the stall") {
  Court court;
  court.stream(1).chunk(1, 0, 0).pause(kOther, ms(10), ms(200));
  court.chunk(1, ms(200), ms(50)).chunk(1, ms(201), ms(100)).chunk(1, ms(202), ms(200));
  court.chunk(1, ms(203), ms(200) + 1).chunk(1, ms(204), ms(203)).end();
  CHECK(court.gap(1, 1).burst == 3);
  CHECK(court.gap(1, 2).burst == 1);
  CHECK(court.gap(1, 4).burst == 1);
}

TEST_CASE("without arrivals a burst is what was delivered at the same moment") {
  Court court;
  court.stream(1).chunk(1, 0);
  court.pause_begins(kOther, ms(10)).chunk(1, ms(50)).chunk(1, ms(50)).chunk(1, ms(60));
  court.pause_ends(kOther, ms(10), ms(200)).chunk(1, ms(200) + 1).chunk(1, ms(200) + 1).end();
  CHECK(court.gap(1, 1).burst == 3);
  CHECK(court.gap(1, 4).burst == 1);
}

TEST_CASE("a burst behind a gap within the budget is not counted") {
  Court court;
  court.stream(1).chunk(1, 0, 0).chunk(1, ms(100), ms(50)).chunk(1, ms(100), ms(60)).end();
  CHECK(court.gap(1, 1).burst == 1);
}

TEST_CASE("a burst counts chunks of its own stream only") {
  Court court;
  court.stream(1).stream(2).chunk(1, 0, 0).chunk(2, 0, 0).pause(kOther, ms(10), ms(200));
  court.chunk(1, ms(200), ms(50)).chunk(2, ms(200), ms(50)).end();
  CHECK(court.gap(1, 1).burst == 1);
  CHECK(court.gap(2, 1).burst == 1);
}

TEST_CASE("a burst counts what is still held when the stream ends") {
  // One read in the pause brings two chunks and [DONE]: the stream has ended before they are
  // delivered, so their burst is never opened and the gap says 1.
  Court court;
  court.stream(1).chunk(1, 0, 0).pause_begins(kOther, ms(50));
  court.chunk(1, ms(200), ms(60)).chunk(1, ms(200), ms(70)).stream_ends(1, ms(200));
  court.pause_ends(kOther, ms(50), ms(250)).end();
  CHECK(court.gap(1, 1).burst == 2);
}

TEST_CASE("a burst that a second stall interrupts is over") {
  // Chunk 2 had queued behind the first stall, but left after a stall of its own: it was not
  // delivered together with chunk 1. And while each further gap is above the budget, nobody looks
  // at the burst of gap 1 again: the findings of the stream stay inside until it ends.
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(1);
  court.chunk(1, ms(200), ms(50)).wait(ms(201)).chunk(1, ms(400), ms(60)).wait(ms(401));
  for (int i = 3; i < 20; ++i) court.chunk(1, ms(200 * i), ms(200 * i - 1)).wait(ms(200 * i + 1));
  CHECK(court.gaps().size() >= 15);
}

TEST_CASE("a gap never spans two streams") {
  Court court;
  court.stream(1).chunk(1, 0, 0).chunk(1, ms(10), ms(10)).stream_ends(1, ms(10));
  court.stream(2).chunk(2, ms(900), ms(900)).chunk(2, ms(910), ms(910)).end();
  REQUIRE(court.gaps().size() == 2);
  CHECK(court.gap(1, 1).gap == ms(10));
  CHECK(court.gap(2, 1).gap == ms(10));
  CHECK(court.summary().over_budget == 0);
}

/// The first chunk of a stream whose request was written at `request_end`, read at 400 ms after a
/// pause from 100 to 300 ms.
FirstChunk first_chunk_of(Ns request_end, std::optional<Ns> arrival) {
  Court court;
  court.stream(1, request_end).pause(kOther, ms(100), ms(300)).chunk(1, ms(400), arrival).end();
  const auto stream = only<StreamFinding>(court.findings).at(0);
  REQUIRE(stream.first_chunk);
  const auto& first = *stream.first_chunk;
  CHECK(first.time == first.upstream + first.charged + first.process);
  CHECK(first.but_for == first.time - first.charged);
  return first;
}

TEST_CASE("a pause is charged to the first chunk only where that was there") {
  CHECK(first_chunk_of(0, ms(350)).charged == 0);
  CHECK(first_chunk_of(0, ms(350)).upstream == ms(350));
  CHECK(first_chunk_of(0, ms(200)).charged == ms(100));
  CHECK(first_chunk_of(0, ms(200)).process == ms(100));
  // A request that was itself held back begins behind the pause.
  CHECK(first_chunk_of(ms(300), ms(310)).charged == 0);
  CHECK(first_chunk_of(ms(300), ms(310)).time == ms(100));
  // Without a known arrival it counts as there since the request.
  CHECK(first_chunk_of(ms(50), std::nullopt).charged == ms(200));
  CHECK(first_chunk_of(ms(50), std::nullopt).upstream == 0);
}

TEST_CASE("a first chunk that the recording has before its request takes no time") {
  const auto first = first_chunk_of(ms(500), ms(350));
  CHECK(first.time == 0);
  CHECK(first.charged == 0);
}

TEST_CASE("time to first chunk runs from the end of the request to the first delivery") {
  Court court;
  court.stream(1, ms(100)).pause_begins(kOther, ms(300)).chunk(1, ms(310), ms(305));
  court.pause_ends(kOther, ms(300), ms(350)).chunk(1, ms(360), ms(360));
  court.stream(2).chunk(2, ms(370)).end();
  const auto streams = only<StreamFinding>(court.findings);
  REQUIRE(streams.size() == 2);
  REQUIRE(streams[0].first_chunk);
  CHECK(streams[0].first_chunk->time == ms(250));
  CHECK(streams[0].first_chunk->upstream == ms(205));
  CHECK(streams[0].first_chunk->charged == ms(45));
  CHECK(streams[0].first_chunk->process == 0);
  CHECK(streams[0].first_chunk->but_for == ms(205));
  CHECK_FALSE(streams[1].first_chunk);
  CHECK(court.summary().first_chunk.count == 1);
  CHECK(court.summary().first_chunk.max == ms(250));
  CHECK(court.summary().first_chunk_but_for.count == 1);
  CHECK(court.summary().first_chunk_but_for.max == ms(205));
}

TEST_CASE("a gap with a loss inside has no verdict and is in no distribution") {
  // A loss is told when the counters are read: before the events of its interval are in order.
  Court court;
  court.stream(1).chunk(1, 0, 0).chunk(1, ms(10), ms(10)).lost(ms(100), ms(150));
  court.pause(kOther, ms(20), ms(300)).chunk(1, ms(300), ms(20)).chunk(1, ms(320), ms(320)).end();
  const auto gap = court.gap(1, 2);
  CHECK(gap.over_budget);
  CHECK_FALSE(gap.verdict);
  CHECK(gap.charged == ms(280));
  const auto summary = court.summary();
  CHECK(summary.unjudged == 1);
  CHECK(summary.over_budget == 0);
  CHECK(summary.verdicts.empty());
  CHECK(summary.gap.count == 2);
  CHECK(summary.gap.max == ms(20));
  CHECK(summary.but_for.count == 2);
  CHECK(summary.lost == 1);
  CHECK(court.progress().worst_gap == ms(20));
}

TEST_CASE("a loss counts to the ends of its interval, and only there") {
  const auto judged = [](Ns from, Ns to) {
    Court court;
    court.stream(1).chunk(1, ms(100), ms(100)).lost(0, ms(1)).lost(from, to).lost(ms(900), ms(950));
    court.chunk(1, ms(300), ms(300)).end();
    return court.gap(1, 1).verdict.has_value();
  };
  CHECK_FALSE(judged(ms(50), ms(100)));
  CHECK(judged(ms(50), ms(100) - 1));
  CHECK_FALSE(judged(ms(300), ms(400)));
  CHECK(judged(ms(300) + 1, ms(400)));
  CHECK_FALSE(judged(ms(50), ms(400)));
  CHECK_FALSE(judged(ms(150), ms(150)));
}

TEST_CASE("a gap within the budget with a loss inside is left out, and is not unjudged") {
  Court court;
  court.stream(1).chunk(1, 0, 0).lost(ms(1), ms(2)).chunk(1, ms(10), ms(10)).end();
  CHECK(court.summary().gap.count == 0);
  CHECK(court.summary().unjudged == 0);
}

TEST_CASE("a loss of one process leaves the others alone") {
  Court court;
  court.stream(1).chunk(1, 0, 0).lost(ms(10), ms(20), Court::kPid + 1);
  court.chunk(1, ms(300), ms(300)).end();
  CHECK(court.gap(1, 1).verdict == Verdict::upstream);
  CHECK(court.summary().lost == 0);
  CHECK(court.progress().lost == 1);
}

TEST_CASE("but-for distribution: each delivery moves forward by the pauses behind its arrival") {
  // Arrivals every 50 ms; the pause [60, 260] holds back chunks 2 to 5, which leave together.
  Court court;
  court.stream(1).chunk(1, 0, 0).chunk(1, ms(50), ms(50)).pause_begins(kOther, ms(60));
  for (int i = 2; i <= 5; ++i) court.chunk(1, ms(50 * i), ms(50 * i));
  court.pause_ends(kOther, ms(60), ms(260)).chunk(1, ms(300), ms(300)).end();
  CHECK(court.gap(1, 2).gap == ms(210));
  CHECK(court.gap(1, 2).burst == 4);
  const auto summary = court.summary();
  CHECK(summary.gap.max == ms(210));
  CHECK(summary.but_for.count == 6);
  CHECK(summary.but_for.max == ms(50));
  CHECK(summary.but_for.p50 == ms(50));
  CHECK_FALSE(summary.budget_kept);
  CHECK(summary.but_for_kept);
}

TEST_CASE("the budget is kept where the p99 is exactly the budget") {
  const auto kept = [](Ns last) {
    Court court;
    court.stream(1).chunk(1, 0, 0).chunk(1, last, last).end();
    CHECK(court.summary().but_for_kept == court.summary().budget_kept);
    return court.summary().budget_kept;
  };
  CHECK(kept(ms(100)));
  CHECK_FALSE(kept(ms(100) + 1));
}

TEST_CASE("the summary's quantiles are nearest-rank over all gaps of all streams") {
  Court court;
  Ns at = 0;
  court.stream(1).stream(2).chunk(1, 0, 0).chunk(2, 0, 0);
  // Gaps of 1 to 150 ms in stream 1; of 151 to 200 ms in stream 2.
  for (int i = 1; i <= 150; ++i) court.chunk(1, at + ms(i), at + ms(i)), at += ms(i);
  at = 0;
  for (int i = 151; i <= 200; ++i) court.chunk(2, at + ms(i), at + ms(i)), at += ms(i);
  court.end();
  const auto summary = court.summary();
  CHECK(summary.gap.count == 200);
  CHECK(summary.gap.p50 == ms(100));
  CHECK(summary.gap.p90 == ms(180));
  CHECK(summary.gap.p99 == ms(198));
  CHECK(summary.gap.max == ms(200));
  CHECK(summary.over_budget == 100);
  CHECK(summary.verdicts == std::map<Verdict, std::uint64_t>{{Verdict::upstream, 100}});
  CHECK(summary.streams == 2);
  CHECK(summary.chunks == 202);
}

TEST_CASE("the summary counts pauses, by generation too") {
  Court court;
  court.pause(kOther, 0, ms(1), 0).pause(kOther, ms(2), ms(4), 0).pause(kOther, ms(5), ms(55), 2);
  court.pause(kOther, ms(60), ms(63), std::nullopt).pause_begins(kOther, ms(70)).end();
  const auto summary = court.summary();
  CHECK(summary.pauses.count == 4);
  CHECK(summary.pauses.total == ms(56));
  CHECK(summary.pauses.max == ms(50));
  CHECK(summary.pauses.p50 == ms(2));
  CHECK(summary.pauses.p99 == ms(50));
  REQUIRE(summary.by_generation.size() == 3);
  CHECK(summary.by_generation.at(0).count == 2);
  CHECK(summary.by_generation.at(0).total == ms(3));
  CHECK(summary.by_generation.at(2).max == ms(50));
  CHECK(summary.by_generation.at(std::nullopt).count == 1);
}

TEST_CASE("a stream's findings leave in order, its own behind them") {
  Court court;
  court.stream(1).chunk(1, 0, 0).chunk(1, ms(5), 0, kOther).stream_ends(1, ms(6));
  CHECK(court.findings.empty());
  court.wait(ms(7), kOther);
  CHECK(court.findings.empty());
  court.wait(ms(8), kReader);
  CHECK(words(court.findings) == Words{"c1.0", "c1.1", "g1.1", "s1"});
}

TEST_CASE("a stream's own finding waits for chunks that are not delivered yet") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(1).pause_begins(kOther, ms(10)).chunk(1, ms(20), ms(20));
  court.stream_ends(1, ms(20)).wait(ms(21));
  CHECK(words(court.findings) == Words{"c1.0"});
  court.pause_ends(kOther, ms(10), ms(90));
  CHECK(words(court.findings) == Words{"c1.0", "p1", "c1.1", "g1.1", "s1"});
  CHECK(only<StreamFinding>(court.findings)[0].chunks == 2);
}

TEST_CASE("a gap above the budget waits until its burst is known") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(1).chunk(1, ms(200), ms(200)).wait(ms(201));
  CHECK(court.gaps().empty());
  court.chunk(1, ms(250), ms(250));
  CHECK(court.gaps().empty());
  court.wait(ms(251));
  CHECK(court.gaps().size() == 2);
}

TEST_CASE("what is pending leaves when the process ends, and the stream ends as open") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(1).pause_begins(kOther, ms(100)).chunk(1, ms(150), ms(150));
  court.take(ProcessEnded{ms(160), Court::kPid});
  CHECK(words(court.findings) == Words{"c1.0", "c1.1", "g1.1", "s1"});
  CHECK(court.gap(1, 1).to == ms(150));
  CHECK_FALSE(court.gap(1, 1).held);
  const auto stream = only<StreamFinding>(court.findings).at(0);
  CHECK(stream.ended.end == StreamEnd::open);
  CHECK(stream.ended.at == ms(160));
  CHECK(stream.chunks == 2);
  court.end();
  CHECK(words(court.findings) == Words{"c1.0", "c1.1", "g1.1", "s1", "E", "S"});
}

TEST_CASE("what is pending leaves when the recording ends") {
  Court court;
  court.stream(2).stream(1).chunk(2, 0, 0).chunk(1, 0, 0).chunk(2, ms(300), ms(300));
  court.end(ms(400));
  CHECK(words(court.findings) == Words{"c1.0", "s1", "c2.0", "c2.1", "g2.1", "s2", "E", "S"});
  for (const auto& stream : only<StreamFinding>(court.findings)) {
    CHECK(stream.ended.end == StreamEnd::open);
  }
}

TEST_CASE("a chunk of a stream that nobody saw begin is left out") {
  Court court;
  court.chunk(7, 0, 0).chunk(7, ms(300), 0).stream_ends(7, ms(300)).end();
  CHECK(words(court.findings) == Words{"E", "S"});
  CHECK(court.summary().chunks == 0);
}

std::vector<std::optional<std::uint64_t>> cuts(const Court& court) {
  std::vector<std::optional<std::uint64_t>> ids;
  for (const auto& stream : only<StreamFinding>(court.findings)) ids.push_back(stream.cut_in_pause);
  return ids;
}

TEST_CASE("a stream that was cut in a pause names it, and one that was cut elsewhere names none") {
  Court court;
  court.stream(1).chunk(1, 0, 0).stream(2).chunk(2, 0, 0).wait(ms(1)).pause(kReader, ms(10),
                                                                            ms(200));
  court.stream_is_cut(1, ms(201), ms(150)).stream_is_cut(2, ms(202), ms(200)).end();
  CHECK(cuts(court) == std::vector<std::optional<std::uint64_t>>{1, std::nullopt});
}

TEST_CASE("a stream whose end is found within the pause waits for the pause's end") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(ms(1)).pause_begins(kOther, ms(10));
  court.stream_is_cut(1, ms(50), ms(40));
  CHECK(cuts(court).empty());
  court.pause_ends(kOther, ms(10), ms(200));
  CHECK(cuts(court) == std::vector<std::optional<std::uint64_t>>{1});
}

TEST_CASE("a stream that was cut in a pause without end is told when all ends") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(ms(1)).pause_begins(kOther, ms(10));
  court.stream_is_cut(1, ms(50), ms(40)).end();
  CHECK(cuts(court) == std::vector<std::optional<std::uint64_t>>{std::nullopt});
}

TEST_CASE("processes do not see each other's pauses") {
  Court court;
  court.stream(1).chunk(1, 0, 0).take(PauseBegan{ms(10), 2, 99}).chunk(1, ms(20), ms(20));
  CHECK(court.progress().chunks == 2);
  court.take(PauseEnded{1, 2, 99, {}, PauseKind::gc, 2, {}, ms(10), ms(290), {}, {}});
  court.chunk(1, ms(300), ms(30)).take(RecordingEnded{ms(400)});
  CHECK(court.gap(1, 1).to == ms(20));
  CHECK(court.gap(1, 2).charged == 0);
  CHECK(court.gap(1, 2).exonerated.empty());
}

TEST_CASE("progress names the worst gap and its verdict") {
  Court court;
  court.stream(1).chunk(1, 0, 0).pause(kOther, ms(10), ms(310)).chunk(1, ms(310), ms(10));
  court.wait(ms(311)).chunk(1, ms(510), ms(510));
  CHECK(court.progress().worst_gap == ms(310));
  CHECK(court.progress().worst_verdict == Verdict::gc);
  CHECK(court.progress().pauses == 1);
  CHECK(court.progress().streams == 1);
  CHECK(court.progress().chunks == 3);
}

TEST_CASE("thousands of old pauses may be forgotten without changing a verdict") {
  Court court;
  court.stream(1).chunk(1, 0, 0);
  for (int i = 0; i < 5'000; ++i) court.pause(kOther, ms(100 * i), ms(100 * i + 10));
  court.chunk(1, ms(500'000), ms(0)).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.charged == ms(50'000));
  CHECK(gap.pauses.size() == 5'000);
}

}  // namespace
}  // namespace gcause
