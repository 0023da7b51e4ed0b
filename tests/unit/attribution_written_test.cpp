// SPDX-License-Identifier: Apache-2.0
//
// Streams that are written: what the collector did to them, and what a gateway adds.
#include <catch2/catch_test_macros.hpp>
#include <vector>

#include "attribution_test_support.h"

namespace gcause {
namespace {

using test::Court;
using test::ms;
using test::only;

constexpr auto kOther = Court::kOther;
constexpr auto kThird = Court::kThird;

TEST_CASE("a collection between the input and the write is the cause") {
  Court court;
  court.written_stream(1).chunk(1, 0, 0).wait(1);
  court.pause(Court::kReader, ms(30), ms(230)).chunk(1, ms(231), ms(25)).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.gap == ms(231));
  CHECK(gap.upstream == ms(25));
  CHECK(gap.charged == ms(200));
  CHECK(gap.verdict == Verdict::gc);
  CHECK(gap.basis == Basis::arrival);
}

TEST_CASE("a collection while there was nothing to write is not") {
  Court court;
  court.written_stream(1).chunk(1, 0, 0).wait(1);
  court.pause(kOther, ms(30), ms(230)).chunk(1, ms(401), ms(400)).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.charged == 0);
  CHECK(gap.upstream == ms(400));
  CHECK(gap.verdict == Verdict::upstream);
  CHECK(gap.exonerated == std::vector<std::uint64_t>{1});
}

TEST_CASE("where nothing is known of the input, a pause counts by overlap") {
  Court court;
  court.written_stream(1).chunk(1, 0).wait(1);
  court.pause(kOther, ms(30), ms(230)).chunk(1, ms(231)).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.charged == ms(200));
  CHECK(gap.verdict == Verdict::gc);
  CHECK(gap.basis == Basis::overlap);
}

TEST_CASE("a written chunk is delivered when the write returns, whatever comes behind it") {
  Court court;
  court.written_stream(1).chunk(1, 0, 0).pause_begins(kOther, ms(40)).chunk(1, ms(50), ms(1));
  court.slept_for_lock(ms(50), ms(60)).pause_ends(kOther, ms(40), ms(250)).end();
  CHECK(court.gap(1, 1).to == ms(50));
  CHECK(court.gap(1, 1).charged == ms(10));
  CHECK_FALSE(court.gap(1, 1).lock_wait);
}

TEST_CASE(
    "a written chunk leaves with the next one, or with its stream, if its thread never waits") {
  Court court;
  court.written_stream(1);
  for (Ns i = 0; i < 100; ++i) court.chunk(1, ms(10 * i), ms(10 * i));
  CHECK(court.chunks().size() == 99);
  CHECK(court.gaps().size() == 98);
  CHECK_FALSE(court.chunks().back().held);
  court.stream_ends(1, ms(1'000));
  CHECK(court.chunks().size() == 100);
  CHECK(only<StreamFinding>(court.findings).size() == 1);
}

TEST_CASE("a wait behind a written chunk lets it go, and says what was held") {
  Court court;
  court.written_stream(1).chunk(1, 0, 0);
  court.pause(Court::kReader, ms(10), ms(30)).wait(ms(50));
  REQUIRE(court.chunks().size() == 1);
  CHECK(court.chunks()[0].held == ms(20));
  court.chunk(1, ms(60), ms(55)).wait(ms(61), kOther).chunk(1, ms(70), ms(65)).end();
  CHECK_FALSE(court.chunks().at(1).held);
}

TEST_CASE("a wait inside of a pause is no obstacle for what follows") {
  Court court;
  court.written_stream(1).chunk(1, 0, 0).pause_begins(kOther, ms(5)).wait(ms(10));
  court.chunk(1, ms(20), ms(15)).stream_ends(1, ms(25)).pause_ends(kOther, ms(5), ms(40));
  CHECK(court.chunks().size() == 2);
  CHECK(only<StreamFinding>(court.findings).size() == 1);
  court.end();
  CHECK(court.chunks().at(0).held == ms(5));
}

TEST_CASE("a chunk that is passed on tells how long after its source it left") {
  Court court;
  court.stream(1).written_stream(2);
  court.chunk(1, ms(10), ms(9)).passes_on(2, ms(12), {1, 0}).wait(ms(13));
  court.chunk(1, ms(30), ms(29)).pause(Court::kReader, ms(31), ms(231));
  court.passes_on(2, ms(232), {1, 1}, ms(29)).wait(ms(233)).end();
  std::vector<std::optional<Ns>> since;
  for (const auto& chunk : court.chunks()) {
    if (chunk.chunk.stream == 2) since.push_back(chunk.since_source);
  }
  CHECK(since == std::vector<std::optional<Ns>>{ms(2), ms(202)});
  CHECK(court.gap(2, 1).verdict == Verdict::gc);
  const auto& written = court.summary().by_direction.at(StreamDirection::write);
  CHECK(written.since_source.count == 2);
  CHECK(written.since_source.max == ms(202));
}

TEST_CASE("time from the source counts from its delivery, not from its read") {
  Court court;
  court.stream(1).written_stream(2).pause_begins(kThird, ms(5));
  court.chunk(1, ms(10), ms(9), kOther).pause_ends(kThird, ms(5), ms(50)).wait(ms(51), kOther);
  court.passes_on(2, ms(60), {1, 0}).end();
  CHECK(court.chunks().back().since_source == ms(10));
}

TEST_CASE("a chunk that is passed on is delivered by then, and what its thread had read before") {
  Court court;
  court.stream(1).stream(2).stream(4).written_stream(3);
  court.chunk(4, ms(8), ms(8), kThird);
  court.chunk(2, ms(9), ms(9), kOther)
      .chunk(1, ms(10), ms(9), kOther)
      .chunk(2, ms(11), ms(9), kOther);
  court.passes_on(3, ms(12), {1, 0}).wait(ms(13));
  REQUIRE(court.chunks().size() == 1);
  CHECK(court.chunks()[0].chunk.stream == 3);
  CHECK(court.chunks()[0].since_source == ms(2));
  CHECK(court.progress().chunks == 5);
  court.wait(ms(20), kOther);
  CHECK(court.chunks().size() == 4);
  CHECK(court.chunks()[1].held == 0);
}

TEST_CASE("a source that is thought to have been held up longer says nothing of the time between") {
  Court court;
  court.stream(1).written_stream(2).pause_begins(kThird, ms(5)).chunk(1, ms(10), ms(9), kOther);
  court.passes_on(2, ms(12), {1, 0}).pause_ends(kThird, ms(5), ms(50)).wait(ms(51), kOther).end();
  for (const auto& chunk : court.chunks()) CHECK_FALSE(chunk.since_source);
}

TEST_CASE("a source that nobody has heard of holds nothing up") {
  Court court;
  court.written_stream(1).stream(2);
  court.passes_on(1, ms(10), {77, 5}).passes_on(1, ms(20), {2, 9}).passes_on(1, ms(30), {1, 7});
  court.stream_ends(1, ms(40));
  CHECK(court.chunks().size() == 3);
  for (const auto& chunk : court.chunks()) CHECK_FALSE(chunk.since_source);
  CHECK(only<StreamFinding>(court.findings).size() == 1);
}

TEST_CASE("time to first chunk of a written stream counts from its request") {
  Court court;
  court.written_stream(1, ms(5));
  court.pause(Court::kReader, ms(20), ms(60)).chunk(1, ms(100), ms(10)).stream_ends(1, ms(200));
  const auto stream = only<StreamFinding>(court.findings).at(0);
  REQUIRE(stream.first_chunk);
  CHECK(stream.first_chunk->time == ms(95));
  CHECK(stream.first_chunk->upstream == ms(5));
  CHECK(stream.first_chunk->charged == ms(40));
}

TEST_CASE("good gaps of one direction do not hide the bad ones of the other") {
  Court court;
  court.stream(1).written_stream(2);
  Ns now = 0;
  for (int i = 0; i < 400; ++i, now += ms(10)) court.chunk(1, now, now).wait(now + 1);
  for (int i = 0; i < 50; ++i, now += ms(10)) court.chunk(2, now, now);
  now -= ms(10);
  court.pause(Court::kReader, now + ms(10), now + ms(210));
  court.chunk(2, now + ms(211), now + ms(9)).end();
  const auto summary = court.summary();
  const auto& read = summary.by_direction.at(StreamDirection::read);
  const auto& written = summary.by_direction.at(StreamDirection::write);
  CHECK(summary.chunks == 451);
  CHECK(summary.gap.count == 449);
  CHECK(summary.gap.p99 == ms(10));
  CHECK(read.budget_kept);
  CHECK(written.gap.p99 == ms(211));
  CHECK_FALSE(written.budget_kept);
  CHECK(written.but_for_kept);
  CHECK_FALSE(summary.budget_kept);
  CHECK(summary.but_for_kept);
  CHECK(written.verdicts.at(Verdict::gc) == 1);
  CHECK(read.verdicts.empty());
  CHECK(summary.verdicts.at(Verdict::gc) == 1);
}

TEST_CASE("windows are those of one direction") {
  Court court;
  court.stream(1).written_stream(2);
  for (Ns at = 0; at <= ms(70'000); at += ms(100)) {
    court.chunk(1, at, at).wait(at + 1).chunk(2, at + ms(50), at + ms(49));
  }
  court.end(ms(70'050));
  for (const auto& window : only<WindowFinding>(court.findings)) {
    CHECK(window.gaps >= 599);
    CHECK(window.gaps <= 601);
  }
  const auto windows = court.summary().windows;
  REQUIRE(windows.size() == 6);
  CHECK(windows[0].direction == StreamDirection::read);
  CHECK(windows[0].count == 3);
  CHECK(windows[3].direction == StreamDirection::write);
  CHECK(windows[3].count == 3);
}

TEST_CASE("a summary tells of the directions that were seen, and windows of one at least") {
  Court nothing;
  nothing.end();
  CHECK(nothing.summary().by_direction.empty());
  CHECK(nothing.summary().windows.size() == 3);
  CHECK(nothing.summary().budget_kept);
  Court written;
  written.written_stream(1).chunk(1, 1).chunk(1, 2).end();
  CHECK(written.summary().by_direction.size() == 1);
  REQUIRE(written.summary().windows.size() == 3);
  CHECK(written.summary().windows[0].direction == StreamDirection::write);
}

}  // namespace
}  // namespace gcause
