// SPDX-License-Identifier: Apache-2.0
//
// What attribution says about one gap: its parts, its verdict, its pauses and its delivery.
#include "attribution/attribution.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "attribution_test_support.h"

namespace gcause {
namespace {

using test::charges;
using test::Court;
using test::ms;
using test::only;
using Ids = std::vector<std::uint64_t>;
using Charges = std::map<std::uint64_t, Ns>;

constexpr auto kReader = Court::kReader;
constexpr auto kOther = Court::kOther;
constexpr auto kThird = Court::kThird;

TEST_CASE("a gap is split into upstream, charged and process") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(1);
  court.pause(kOther, ms(150), ms(250));
  court.chunk(1, ms(270), ms(100)).wait(ms(271)).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.from == 0);
  CHECK(gap.to == ms(270));
  CHECK(gap.gap == ms(270));
  CHECK(gap.upstream == ms(100));
  CHECK(gap.charged == ms(100));
  CHECK(gap.process == ms(70));
  CHECK(gap.but_for == ms(170));
  CHECK(gap.basis == Basis::arrival);
  CHECK(gap.pid == Court::kPid);
  CHECK(gap.tid == kReader);
  CHECK(charges(gap) == Charges{{1, ms(100)}});
}

TEST_CASE("only the part of a pause behind the arrival is charged") {
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause(kOther, ms(50), ms(250));
  court.chunk(1, ms(250), ms(200)).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.upstream == ms(200));
  CHECK(gap.charged == ms(50));
  CHECK(charges(gap) == Charges{{1, ms(50)}});
}

TEST_CASE("a chunk that had queued before the last delivery is charged from that delivery on") {
  Court court;
  court.stream(1);
  court.pause(kOther, ms(10), ms(60));
  court.chunk(1, ms(60), ms(5));
  court.pause(kOther, ms(70), ms(200));
  court.chunk(1, ms(200), ms(6)).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.upstream == 0);
  CHECK(gap.charged == ms(130));
  CHECK(gap.process == ms(10));
  CHECK(charges(gap) == Charges{{2, ms(130)}});
}

/// One gap with its three parts as given.
GapFinding gap_of(Ns upstream, Ns charged, Ns process, Ns budget = ms(100)) {
  Court court(budget);
  court.stream(1).chunk(1, 0, 0);
  if (charged > 0) court.pause(kOther, upstream, upstream + charged);
  court.chunk(1, upstream + charged + process, upstream).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.upstream == upstream);
  CHECK(gap.charged == charged);
  CHECK(gap.process == process);
  return gap;
}

TEST_CASE("the verdict follows the table") {
  using V = Verdict;
  const auto [upstream, charged, process, verdict] = GENERATE(table<Ns, Ns, Ns, V>({
      {0, ms(101), 0, V::gc},
      {ms(50), ms(60), ms(50), V::gc},              // but-for is exactly the budget
      {ms(50), ms(60), ms(50) + 1, V::gc_partial},  // and 1 ns above it
      {ms(100), 1, 0, V::gc},                       // 1 ns that broke the budget
      {ms(900), ms(100), 0, V::gc_partial},         // exactly 10 %
      {ms(900) + 1, ms(100), 0, V::upstream},       // just below 10 %
      {ms(450), ms(100), ms(450), V::gc_partial},
      {ms(450), ms(99), ms(451), V::process},
      {ms(450), ms(99), ms(450), V::upstream},  // a draw goes to upstream
      {ms(101), 0, 0, V::upstream},
      {0, 0, ms(101), V::process},
  }));
  CAPTURE(upstream, charged, process);
  const auto gap = gap_of(upstream, charged, process);
  CHECK(gap.over_budget);
  CHECK(gap.verdict == verdict);
}

TEST_CASE("a gap that is exactly the budget keeps it, and has no verdict") {
  const auto kept = gap_of(0, ms(100), 0);
  CHECK_FALSE(kept.over_budget);
  CHECK_FALSE(kept.verdict);
  CHECK(kept.charged == ms(100));
  const auto broken = gap_of(0, ms(100) + 1, 0);
  CHECK(broken.over_budget);
  CHECK(broken.verdict == Verdict::gc);
}

TEST_CASE("the budget of the session counts, unless the user named another") {
  const auto verdict_with = [](std::optional<Ns> user) {
    Court court(ms(50), user);
    court.stream(1).chunk(1, 0, 0).pause(kOther, 0, ms(80)).chunk(1, ms(80), 0).end();
    return court.gap(1, 1).verdict;
  };
  CHECK(verdict_with(std::nullopt) == Verdict::gc);
  CHECK_FALSE(verdict_with(ms(80)));
  CHECK(verdict_with(ms(79)) == Verdict::gc);
}

TEST_CASE("a pause inside the wait for a silent server is exonerated") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(1);
  court.pause(kOther, ms(100), ms(300));
  court.chunk(1, ms(400), ms(400)).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.charged == 0);
  CHECK(gap.pauses.empty());
  CHECK(gap.exonerated == Ids{1});
  CHECK(gap.verdict == Verdict::upstream);
  CHECK(gap.but_for == ms(400));
}

TEST_CASE("pauses that only touch a gap are not part of it") {
  Court court;
  court.stream(1);
  court.pause(kOther, 0, ms(50));
  court.chunk(1, ms(50), ms(50));
  court.chunk(1, ms(200), ms(60));
  court.pause_begins(kOther, ms(200));
  court.pause_ends(kOther, ms(200), ms(300)).end();
  CHECK(court.gap(1, 1).charged == 0);
  CHECK(court.gap(1, 1).pauses.empty());
  CHECK(court.gap(1, 1).exonerated.empty());
}

TEST_CASE("several small pauses add up") {
  Court court;
  court.stream(1).chunk(1, 0, 0);
  for (int i = 0; i < 15; ++i) court.pause(kOther, ms(10 + 12 * i), ms(20 + 12 * i));
  court.chunk(1, ms(200), 0).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.charged == ms(150));
  CHECK(gap.verdict == Verdict::gc);
  CHECK(gap.pauses.size() == 15);
  for (const auto& pause : gap.pauses) CHECK(pause.charged == ms(10));
}

TEST_CASE("overlapping pauses count once, and each is named with its own part") {
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause_begins(kOther, ms(20)).pause_begins(kThird, ms(60));
  court.pause_ends(kOther, ms(20), ms(120)).pause_ends(kThird, ms(60), ms(160));
  court.chunk(1, ms(180), 0).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.charged == ms(140));
  CHECK(gap.process == ms(40));
  CHECK(charges(gap) == Charges{{1, ms(100)}, {2, ms(100)}});
}

TEST_CASE("a pause inside another counts once") {
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause_begins(kOther, ms(20)).pause(kThird, ms(50), ms(60));
  court.pause_ends(kOther, ms(20), ms(120));
  court.chunk(1, ms(130), 0).end();
  CHECK(court.gap(1, 1).charged == ms(100));
}

TEST_CASE("one pause is charged to every stream that it held back") {
  Court court;
  court.stream(1).stream(2).stream(3).chunk(1, 0, 0).chunk(2, ms(1), 0).chunk(3, ms(2), 0);
  court.pause(kOther, ms(50), ms(250));
  court.chunk(1, ms(251), ms(60)).chunk(2, ms(252), ms(150)).chunk(3, ms(253), ms(251)).end();
  CHECK(charges(court.gap(1, 1)) == Charges{{1, ms(190)}});
  CHECK(charges(court.gap(2, 1)) == Charges{{1, ms(100)}});
  CHECK(court.gap(3, 1).exonerated == Ids{1});
}

TEST_CASE("a pause across a delivery is charged to both gaps, to each its part") {
  // The reading thread's own pause: the delivery does not move.
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause(kReader, ms(10), ms(150));
  court.chunk(1, ms(150), 0);
  court.pause(kReader, ms(160), ms(300));
  court.chunk(1, ms(310), ms(150)).end();
  CHECK(charges(court.gap(1, 1)) == Charges{{1, ms(140)}});
  CHECK(charges(court.gap(1, 2)) == Charges{{2, ms(140)}});
}

TEST_CASE("where no arrival is known the chunk counts as there since the last delivery") {
  Court court;
  court.stream(1).chunk(1, 0);
  court.pause(kOther, ms(100), ms(300));
  court.chunk(1, ms(400)).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.basis == Basis::overlap);
  CHECK(gap.upstream == 0);
  CHECK(gap.charged == ms(200));
  CHECK(gap.process == ms(200));
  CHECK(gap.verdict == Verdict::gc_partial);
  CHECK(gap.exonerated.empty());
}

TEST_CASE("a read in another thread's pause is delivered at its end") {
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause_begins(kOther, ms(50)).chunk(1, ms(70), ms(70)).pause_ends(kOther, ms(50), ms(200));
  court.wait(ms(210)).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.to == ms(200));
  CHECK(gap.upstream == ms(70));
  CHECK(gap.charged == ms(130));
  CHECK(gap.verdict == Verdict::gc);
  CHECK(court.chunks().at(1).delivery == ms(200));
  CHECK(court.chunks().at(1).chunk.read == ms(70));
}

TEST_CASE("a read in two overlapping pauses is delivered when neither holds it any more") {
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause_begins(kOther, ms(50)).pause_begins(kThird, ms(60));
  court.chunk(1, ms(70), ms(65));
  SECTION("the one that began later ends later") {
    court.pause_ends(kOther, ms(50), ms(150)).pause_ends(kThird, ms(60), ms(240));
  }
  SECTION("the one that began later ends first") {
    court.pause_ends(kThird, ms(60), ms(150)).pause_ends(kOther, ms(50), ms(240));
  }
  court.end();
  CHECK(court.gap(1, 1).to == ms(240));
  CHECK(court.gap(1, 1).charged == ms(175));
}

TEST_CASE("the reading thread's own pause does not move the delivery") {
  // A finalizer that reads: the collector's thread itself goes on.
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause_begins(kReader, ms(50)).chunk(1, ms(70), ms(60)).pause_ends(kReader, ms(50), ms(200));
  court.end();
  CHECK(court.gap(1, 1).to == ms(70));
}

TEST_CASE("what was delivered inside the reading thread's own pause is charged to that pause") {
  // charged is 10 ms, but `pauses` is empty: PauseLog::covered counts open pauses, for_each_in only
  // finished ones, and a pause has no id before its end.
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause_begins(kReader, ms(50)).chunk(1, ms(70), ms(60)).pause_ends(kReader, ms(50), ms(200));
  court.end();
  CHECK(court.gap(1, 1).charged == ms(10));
  CHECK(charges(court.gap(1, 1)) == Charges{{1, ms(10)}});
}

TEST_CASE("a thread that slept for the lock behind its read goes on when it has it") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(1);
  // The read returns before the pause of another thread begins, and its thread comes too late.
  court.chunk(1, ms(50), ms(49)).slept_for_lock(ms(50), ms(52)).pause(kOther, ms(51), ms(250));
  court.slept_for_lock(ms(50), ms(255)).wait(ms(256)).end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.to == ms(255));
  CHECK(gap.charged == ms(199));
  CHECK(gap.process == ms(7));
  CHECK(gap.lock_wait == ms(6));
  CHECK(gap.held == 0);
  CHECK(gap.verdict == Verdict::gc);
}

TEST_CASE("a thread that wakes inside of a pause does not have the lock") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(1).pause_begins(kOther, ms(40)).chunk(1, ms(50), ms(49));
  court.slept_for_lock(ms(50), ms(60)).pause_ends(kOther, ms(40), ms(250)).wait(ms(256)).end();
  CHECK(court.gap(1, 1).to == ms(250));
  Court late;
  late.stream(1).chunk(1, 0, 0).wait(1).chunk(1, ms(50), ms(49)).pause_begins(kOther, ms(51));
  late.slept_for_lock(ms(50), ms(60)).pause_ends(kOther, ms(51), ms(250)).wait(ms(256)).end();
  CHECK(late.gap(1, 1).to == ms(250));
}

TEST_CASE("a lock is the newest read's, of the same thread, before it asks for more") {
  Court court;
  court.stream(1).chunk(1, 0, 0).slept_for_lock(1, 2, kOther).chunk(1, ms(200), ms(200));
  court.slept_for_lock(ms(201), ms(210)).wait(ms(220)).slept_for_lock(ms(221), ms(230));
  court.chunk(1, ms(300), ms(300)).wait(ms(301)).end();
  CHECK(court.chunks().at(0).delivery == 0);
  CHECK(court.gap(1, 1).to == ms(210));
  CHECK(court.gap(1, 1).lock_wait == ms(10));
  CHECK_FALSE(court.gap(1, 2).lock_wait);
}

TEST_CASE("a thread that ends behind its last chunk had the lock before") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(1).chunk(1, ms(50), ms(49)).stream_ends(1, ms(50));
  court.slept_for_lock(ms(50), ms(200)).end();
  CHECK(court.gap(1, 1).to == ms(200));
}

TEST_CASE("a thread that never asks for more holds its chunk back for ten seconds, and no longer") {
  Court court;
  court.stream(1).stream(2).chunk(1, 0, 0).wait(1).chunk(1, ms(200), ms(200));
  court.chunk(2, ms(10'100), ms(10'100), kOther);
  CHECK(court.progress().worst_gap == 0);
  court.chunk(2, ms(10'300), ms(10'300), kOther);
  CHECK(court.progress().worst_gap == ms(200));
  court.end();
}

TEST_CASE("a pause that was none releases what it held, and charges nothing") {
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause_begins(kOther, ms(50)).chunk(1, ms(170), ms(60)).wait(ms(171));
  CHECK(court.gaps().empty());
  court.pause_cancelled(kOther, ms(50)).chunk(1, ms(172), ms(172)).wait(ms(173));
  REQUIRE(court.gaps().size() == 2);
  court.end();
  const auto gap = court.gap(1, 1);
  CHECK(gap.to == ms(170));
  CHECK(gap.charged == 0);
  CHECK(gap.pauses.empty());
  CHECK(gap.exonerated.empty());
  CHECK(gap.verdict == Verdict::process);
  CHECK(court.summary().pauses.count == 0);
}

TEST_CASE("a real pause beside one that was none still holds") {
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause_begins(kOther, ms(50)).pause_begins(kThird, ms(60)).chunk(1, ms(70), ms(70));
  SECTION("the real one ends last") {
    court.pause_cancelled(kThird, ms(60)).pause_ends(kOther, ms(50), ms(200));
  }
  SECTION("the real one ends first") {
    court.pause_ends(kOther, ms(50), ms(200)).pause_cancelled(kThird, ms(60));
  }
  court.end();
  CHECK(court.gap(1, 1).to == ms(200));
  CHECK(court.gap(1, 1).charged == ms(130));
}

TEST_CASE("a pause that was none does not tie a chunk to the pause after it") {
  // The read stays pending while any bracket is open, so a bracket that turns out to be none
  // carries it over into a pause that began after the thread could go on: 250 ms, not 100 ms.
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause_begins(kOther, ms(50)).chunk(1, ms(70), ms(70)).pause_begins(kThird, ms(90));
  court.pause_ends(kOther, ms(50), ms(100)).pause_begins(kOther, ms(110));
  court.pause_cancelled(kThird, ms(90)).pause_ends(kOther, ms(110), ms(250)).end();
  CHECK(court.gap(1, 1).to == ms(100));
}

TEST_CASE("chunks of one stream are delivered in their order") {
  // Two brackets are open; a thread that is in one of them reads chunk 2 while chunk 1 of another
  // thread is still held by both. Chunk 2 is released first, and the gap in front of chunk 1 is
  // computed from it, with its ends the wrong way round (std::clamp with lo > hi).
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.pause_begins(kOther, ms(50)).pause_begins(kThird, ms(60));
  court.chunk(1, ms(70), ms(70)).chunk(1, ms(80), ms(80), kOther);
  court.pause_ends(kThird, ms(60), ms(100)).pause_ends(kOther, ms(50), ms(150)).end();
  std::vector<std::uint32_t> order;
  for (const auto& chunk : court.chunks()) order.push_back(chunk.chunk.index);
  CHECK(order == std::vector<std::uint32_t>{0, 1, 2});
}

TEST_CASE("held is the pause time between the delivery and the next wait") {
  Court court;
  court.stream(1).chunk(1, 0, 0);
  court.chunk(1, ms(10), ms(10));
  court.pause(kOther, ms(20), ms(50)).pause(kReader, ms(60), ms(80));
  court.wait(ms(100)).pause(kOther, ms(110), ms(150)).end();
  CHECK(court.chunks().at(0).held == ms(50));
  CHECK(court.chunks().at(1).held == ms(50));
  CHECK(court.gap(1, 1).held == ms(50));
  CHECK(court.gap(1, 1).charged == 0);
}

TEST_CASE("held counts the begun part of a pause that is open at the wait") {
  Court court;
  court.stream(1).chunk(1, 0, 0).pause_begins(kOther, ms(20)).wait(ms(30));
  court.pause_ends(kOther, ms(20), ms(90)).end();
  CHECK(court.chunks().at(0).held == ms(10));
}

TEST_CASE("held is not taken from a pause that was none") {
  // covered() counts the open bracket at the wait, and the finding has left before it is cancelled.
  Court court;
  court.stream(1).chunk(1, 0, 0).pause_begins(kOther, ms(20)).wait(ms(30));
  court.pause_cancelled(kOther, ms(20)).end();
  CHECK(court.chunks().at(0).held == 0);
}

TEST_CASE("only the thread's own wait ends the holding") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(ms(5), kOther);
  CHECK(court.chunks().empty());
  court.pause(kOther, ms(10), ms(30)).wait(ms(40)).end();
  CHECK(court.chunks().at(0).held == ms(20));
}

TEST_CASE("one wait ends the holding of all that its thread had read") {
  Court court;
  court.stream(1).stream(2).chunk(1, 0, 0).chunk(2, ms(5), 0).chunk(2, ms(6), 0);
  court.pause(kOther, ms(10), ms(30)).wait(ms(40));
  REQUIRE(court.chunks().size() == 3);
  for (const auto& chunk : court.chunks()) CHECK(chunk.held == ms(20));
}

TEST_CASE("held is not known where the thread never waited again") {
  Court court;
  court.stream(1).chunk(1, 0, 0).chunk(1, ms(5), 0).pause(kOther, ms(10), ms(30)).end();
  CHECK_FALSE(court.chunks().at(1).held);
  CHECK_FALSE(court.gap(1, 1).held);
}

TEST_CASE("a thread that waited before its delivery held nothing") {
  Court court;
  court.stream(1).chunk(1, 0, 0).wait(1).pause_begins(kOther, ms(50)).chunk(1, ms(70), ms(70));
  court.wait(ms(75)).pause_ends(kOther, ms(50), ms(200)).end();
  CHECK(court.gap(1, 1).held == 0);
}

TEST_CASE("a connection that cannot be read leaves with its library, known before or behind its end") {
  const TlsUnread connection{Court::kPid, 70, 7, "peer", 1, 2, 3, 4, 5, 6, {}};
  Court court;
  const auto told = [&] { return only<TlsUnreadFinding>(court.findings); };
  SECTION("before") {
    court.take(TlsReaderFound{1, Court::kPid, 70, "/x.so"}).take(connection);
    REQUIRE(told().size() == 1);
    CHECK(told()[0].library == "/x.so");
  }
  SECTION("behind") {
    court.take(connection);
    CHECK(told().empty());
    court.take(TlsReaderFound{1, Court::kPid, 71, "/y.so"}).take(TlsReaderFound{1, Court::kPid, 70, "/x.so"});
    REQUIRE(told().size() == 1);
    CHECK(told()[0].library == "/x.so");
  }
  SECTION("looked for in vain") {
    court.take(TlsReaderFound{1, Court::kPid, 70, ""}).take(connection);
    REQUIRE(told().size() == 1);
    CHECK_FALSE(told()[0].library);
  }
  court.end(10);
  REQUIRE(told().size() == 1);
  CHECK(told()[0].connection.records == 3);
  CHECK(court.summary().tls_unread == 1);
}

TEST_CASE("a connection of which nobody asked leaves at the end") {
  Court court;
  court.take(TlsUnread{Court::kPid, 70, 7, "peer", 1, 2, 3, 4, 5, 6, {}}).end(10);
  const auto told = only<TlsUnreadFinding>(court.findings);
  REQUIRE(told.size() == 1);
  CHECK_FALSE(told[0].library);
}

}  // namespace
}  // namespace gcause
