// SPDX-License-Identifier: Apache-2.0
//
// The budget over time: windows by hand, and random gaps against a reference that looks at all gaps
// anew for each window.
#include "attribution/budget_windows.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <optional>
#include <random>
#include <vector>

#include "attribution_test_support.h"

namespace gcause {
namespace {

using test::Court;
using test::ms;
using test::only;

constexpr Ns kBudget = ms(100);
constexpr Ns kMinute = 60 * kSecond;

struct Gap {
  Ns end;
  Ns gap;
  Ns but_for;
};

/// Windows with what they hand out.
struct Subject {
  Ns budget = kBudget;
  std::vector<WindowFinding> found;
  BudgetWindows windows{7, StreamDirection::read, budget,
                        [this](const WindowFinding& window) { found.push_back(window); }};

  /// `count` gaps that end evenly in (from, to].
  void fill(Ns from, Ns to, int count, Ns gap, Ns but_for) {
    for (int i = 1; i <= count; ++i) windows.add(from + (to - from) * i / count, gap, but_for);
  }
  std::vector<WindowFinding> of(Ns length) const {
    std::vector<WindowFinding> same;
    for (const auto& window : found) {
      if (window.length() == length) same.push_back(window);
    }
    return same;
  }
  WindowTotals totals(std::size_t place) const { return windows.totals({}, {}).at(place); }
};

TEST_CASE("a minute is broken while it holds the gaps that break it") {
  Subject subject;
  subject.windows.begin(0);
  subject.fill(0, 300 * kSecond, 3'000, ms(50), ms(40));
  subject.fill(100 * kSecond, 101 * kSecond, 20, ms(300), ms(60));
  subject.windows.finish(300 * kSecond);
  const auto minutes = subject.of(kMinute);
  REQUIRE(minutes.size() == 25);
  for (const auto& minute : minutes) {
    CAPTURE(minute.to / kSecond);
    const bool holds = minute.from < 101 * kSecond && minute.to > 101 * kSecond;
    CHECK(minute.budget_kept == !holds);
    CHECK(minute.but_for_kept == true);
    CHECK(minute.p99 == (holds ? ms(300) : ms(50)));
    CHECK(minute.gaps == (holds ? 620 : 600));
  }
  const auto totals = subject.totals(0);
  CHECK(totals.length == kMinute);
  CHECK(totals.count == 25);
  CHECK(totals.few == 0);
  CHECK(totals.broken == 6);
  CHECK(totals.broken_by_collector == 6);
  REQUIRE(totals.worst);
  CHECK(totals.worst->from == 50 * kSecond);
  CHECK(totals.worst->to == 110 * kSecond);
  CHECK(totals.worst->but_for_p99 == ms(60));

  // In five minutes twenty gaps of three thousand are no 99th percentile.
  CHECK(subject.totals(1).count == 1);
  CHECK(subject.totals(1).broken == 0);
}

TEST_CASE("a change of state is marked where it happens, in both directions") {
  Subject subject;
  subject.windows.begin(0);
  subject.fill(0, 300 * kSecond, 3'000, ms(50), ms(40));
  subject.fill(100 * kSecond, 101 * kSecond, 20, ms(300), ms(200));
  subject.windows.finish(300 * kSecond);
  std::vector<Ns> ends;
  for (const auto& minute : subject.of(kMinute)) {
    if (minute.changed) ends.push_back(minute.to / kSecond);
  }
  CHECK(ends == std::vector<Ns>{60, 110, 170});
  CHECK(subject.totals(0).broken == 6);
  CHECK(subject.totals(0).broken_by_collector == 0);
}

TEST_CASE("a window with too few gaps is not judged") {
  const int gaps = GENERATE(1, 99, 100);
  Subject subject;
  subject.windows.begin(0);
  subject.fill(0, 50 * kSecond, gaps - 1, ms(50), ms(50));
  subject.windows.add(55 * kSecond, ms(900), ms(900));
  subject.windows.finish(kMinute);
  REQUIRE(subject.found.size() == 1);
  const auto& window = subject.found[0];
  CHECK(window.gaps == static_cast<std::uint64_t>(gaps));
  if (gaps < 100) {
    CHECK(window.p99 == ms(900));
    CHECK_FALSE(window.budget_kept);
    CHECK_FALSE(window.changed);
    CHECK_FALSE(subject.totals(0).worst);
    CHECK(subject.totals(0).few == 1);
  } else {
    // One gap of a hundred breaks no p99: it is reported as a gap, not as a broken minute.
    CHECK(window.budget_kept == true);
    CHECK(subject.totals(0).few == 0);
  }
  CHECK(subject.totals(0).broken == 0);
}

TEST_CASE("a gap belongs to the windows that hold its end, the first instant left out") {
  Subject subject;
  subject.windows.begin(0);
  subject.windows.add(10 * kSecond, ms(1), ms(1));
  subject.windows.finish(80 * kSecond);
  const auto minutes = subject.of(kMinute);
  // (0 s, 60 s] holds it, (10 s, 70 s] does not; (20 s, 80 s] is as empty as that one.
  REQUIRE(minutes.size() == 2);
  CHECK(minutes[0].gaps == 1);
  CHECK(minutes[1].gaps == 0);
  CHECK(subject.totals(0).count == 3);
}

TEST_CASE("the last window ends with the recording") {
  Subject subject;
  subject.windows.begin(5 * kSecond);
  subject.fill(5 * kSecond, 70 * kSecond, 650, ms(50), ms(50));
  subject.windows.finish(68 * kSecond);
  const auto minutes = subject.of(kMinute);
  REQUIRE(minutes.size() == 2);
  CHECK(minutes[0].from == 5 * kSecond);
  CHECK(minutes[0].to == 65 * kSecond);
  CHECK(minutes[0].news_from == 5 * kSecond);
  CHECK(minutes[1].from == 8 * kSecond);
  CHECK(minutes[1].to == 68 * kSecond);
  CHECK(minutes[1].news_from == 65 * kSecond);
  CHECK(minutes[1].gaps == 600);
}

TEST_CASE("less than a minute is judged as a whole only") {
  Subject subject;
  subject.fill(0, 59 * kSecond, 200, ms(300), ms(50));
  subject.windows.finish(59 * kSecond);
  CHECK(subject.found.empty());
  const Distribution gap{200, ms(300), ms(300), ms(300), ms(300)};
  const Distribution but_for{200, ms(50), ms(50), ms(50), ms(50)};
  const auto totals = subject.windows.totals(gap, but_for);
  REQUIRE(totals.size() == 3);
  CHECK(totals[0].count == 0);
  CHECK(totals[1].count == 0);
  CHECK_FALSE(totals[2].length);
  CHECK(totals[2].count == 1);
  CHECK(totals[2].broken == 1);
  CHECK(totals[2].broken_by_collector == 1);
  REQUIRE(totals[2].worst);
  CHECK(totals[2].worst->p99 == ms(300));
  CHECK(totals[2].worst->to == 59 * kSecond);
}

TEST_CASE("no recording, no windows") {
  Subject subject;
  subject.windows.advance(500 * kSecond);
  subject.windows.finish(900 * kSecond);
  CHECK(subject.found.empty());
  CHECK(subject.totals(0).count == 0);
}

TEST_CASE("ages of silence are counted, not walked through") {
  Subject subject;
  subject.windows.begin(0);
  subject.fill(0, kMinute, 200, ms(300), ms(300));
  const Ns century = Ns{3'155'760'000} * kSecond;
  subject.windows.add(century, ms(1), ms(1));
  subject.windows.advance(INT64_MAX);
  subject.windows.finish(INT64_MAX);
  CHECK(subject.found.size() < 100);
  const auto ends = static_cast<std::uint64_t>((Ns{1} << 61) / kWindowStep);
  CHECK(subject.totals(0).count == ends - 5 + 1);
  CHECK(subject.totals(1).count == ends - 29 + 1);
  // Those that end from 60 s to 90 s have a hundred gaps of the first minute.
  CHECK(subject.totals(0).broken == 4);
}

// ---- Against the reference.

std::vector<Gap> random_gaps(std::mt19937& engine, Ns until) {
  const auto between = [&](Ns low, Ns high) {
    return std::uniform_int_distribution<Ns>(low, high)(engine);
  };
  std::vector<Gap> gaps;
  Ns at = 0;
  while (at < until) {
    // Some stretches are dense, some sparse, some silent; some are slow.
    const Ns stop = at + between(5, 90) * kSecond;
    const Ns pace = between(0, 3) == 0 ? 100 * kSecond : ms(between(50, 2'000));
    const bool slow = between(0, 2) == 0;
    for (at += between(1, pace); at < stop; at += between(1, pace)) {
      const Ns gap = ms(between(1, slow && between(0, 30) == 0 ? 400 : 95));
      gaps.push_back({at, gap, gap - between(0, gap)});
    }
    at = std::max(at, stop);
  }
  std::erase_if(gaps, [&](const Gap& gap) { return gap.end > until; });
  return gaps;
}

Ns reference_p99(std::vector<Ns> values) {
  std::sort(values.begin(), values.end());
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (100 * (i + 1) >= 99 * values.size()) return values[i];
  }
  return 0;
}

/// Every window of one length that ends in a recording of [0, until].
std::vector<WindowFinding> reference(const std::vector<Gap>& gaps, Ns length, Ns until) {
  std::vector<WindowFinding> all;
  std::vector<Ns> ends;
  for (Ns end = kWindowStep; end <= until; end += kWindowStep) ends.push_back(end);
  if (until % kWindowStep != 0) ends.push_back(until);
  for (const Ns end : ends) {
    if (end < length) continue;
    std::vector<Ns> lengths, but_for;
    for (const auto& gap : gaps) {
      if (gap.end <= end - length || gap.end > end) continue;
      lengths.push_back(gap.gap);
      but_for.push_back(gap.but_for);
    }
    WindowFinding window;
    window.from = end - length;
    window.to = end;
    window.gaps = lengths.size();
    window.p99 = reference_p99(lengths);
    window.but_for_p99 = reference_p99(but_for);
    if (window.gaps >= 100) window.budget_kept = window.p99 <= kBudget;
    if (window.gaps >= 100) window.but_for_kept = window.but_for_p99 <= kBudget;
    all.push_back(window);
  }
  return all;
}

void compare(const Subject& subject, std::size_t place, const std::vector<Gap>& gaps, Ns until) {
  const Ns length = BudgetWindows::kLengths.at(place);
  auto wanted = reference(gaps, length, until);
  WindowTotals sums;
  for (const auto& window : wanted) {
    ++sums.count;
    sums.few += window.gaps < 100;
    sums.broken += window.budget_kept == false;
    sums.broken_by_collector += window.budget_kept == false && window.but_for_kept == true;
    if (window.gaps < 100) continue;
    if (!sums.worst || sums.worst->p99 < window.p99) sums.worst = window;
  }
  const auto totals = subject.totals(place);
  CHECK(totals.count == sums.count);
  CHECK(totals.few == sums.few);
  CHECK(totals.broken == sums.broken);
  CHECK(totals.broken_by_collector == sums.broken_by_collector);
  REQUIRE(totals.worst.has_value() == sums.worst.has_value());
  if (sums.worst) CHECK(totals.worst->to == sums.worst->to);

  std::vector<WindowFinding> told;
  std::uint64_t before = 0;
  for (const auto& window : wanted) {
    if (window.gaps > 0 || before > 0) told.push_back(window);
    before = window.gaps;
  }
  const auto found = subject.of(length);
  REQUIRE(found.size() == told.size());
  for (std::size_t i = 0; i < told.size(); ++i) {
    CAPTURE(i, told[i].to / kSecond);
    CHECK(found[i].pid == 7);
    CHECK(found[i].from == told[i].from);
    CHECK(found[i].to == told[i].to);
    CHECK(found[i].gaps == told[i].gaps);
    CHECK(found[i].p99 == told[i].p99);
    CHECK(found[i].but_for_p99 == told[i].but_for_p99);
    CHECK(found[i].budget_kept == told[i].budget_kept);
    CHECK(found[i].but_for_kept == told[i].but_for_kept);
  }
}

TEST_CASE("windows agree with a reference on random gaps") {
  const auto seed = GENERATE(range(1u, 41u));
  CAPTURE(seed);
  std::mt19937 engine(seed);
  const Ns until = ms(std::uniform_int_distribution<Ns>(30'000, 900'000)(engine));
  const auto gaps = random_gaps(engine, until);

  Subject subject;
  subject.windows.begin(0);
  // Chunks of several streams may be delivered out of order, but not behind what is known.
  for (std::size_t at = 0; at < gaps.size();) {
    const auto group = std::min<std::size_t>(gaps.size() - at, 1 + engine() % 8);
    std::vector<Gap> some(gaps.begin() + static_cast<std::ptrdiff_t>(at),
                          gaps.begin() + static_cast<std::ptrdiff_t>(at + group));
    std::shuffle(some.begin(), some.end(), engine);
    for (const auto& gap : some) subject.windows.add(gap.end, gap.gap, gap.but_for);
    at += group;
    if (at < gaps.size() && engine() % 2 == 0) subject.windows.advance(gaps[at].end - 1);
  }
  subject.windows.finish(until);
  for (std::size_t place = 0; place < BudgetWindows::kLengths.size(); ++place) {
    compare(subject, place, gaps, until);
  }
}

// ---- In attribution.

TEST_CASE("the summary has the windows of a process, and they stand in front of it") {
  Court court;
  court.stream(1);
  for (Ns at = 0; at <= 130 * kSecond; at += ms(200)) court.chunk(1, at, at).wait(at + 1);
  court.end(130 * kSecond);
  const auto windows = only<WindowFinding>(court.findings);
  REQUIRE(windows.size() == 8);
  CHECK(windows[0].gaps == 300);
  CHECK(windows[0].budget_kept == false);
  CHECK(windows[0].but_for_kept == false);
  CHECK(std::holds_alternative<SummaryFinding>(court.findings.back()));
  const auto summary = court.summary();
  REQUIRE(summary.windows.size() == 3);
  CHECK(summary.windows[0].count == 8);
  CHECK(summary.windows[0].broken == 8);
  CHECK(summary.windows[1].count == 0);
  CHECK(summary.windows[2].broken == 1);
  CHECK(summary.windows[2].worst->to == 130 * kSecond);
}

TEST_CASE("a window waits for the chunks that a pause still holds back") {
  Court court;
  court.stream(1).stream(2);
  for (Ns at = 0; at < 59 * kSecond; at += ms(100)) court.chunk(1, at, at);
  court.chunk(2, ms(59'000), ms(59'000));
  court.pause_begins(Court::kOther, ms(59'500));
  // Read before the minute is over, delivered behind it.
  court.chunk(1, ms(59'900), ms(59'900));
  court.chunk(2, ms(61'000), ms(61'000));
  CHECK(only<WindowFinding>(court.findings).empty());
  court.pause_ends(Court::kOther, ms(59'500), ms(62'000));
  court.chunk(2, ms(75'000), ms(75'000)).end(ms(75'000));
  const auto windows = only<WindowFinding>(court.findings);
  REQUIRE(windows.size() == 3);
  CHECK(windows[0].to == 60 * kSecond);
  CHECK(windows[0].gaps == 589);
  CHECK(windows[1].to == 70 * kSecond);
  CHECK(windows[1].gaps == 589 + 2 - 100);
  CHECK(windows[2].to == 75 * kSecond);
}

TEST_CASE("gaps with a loss are in no window, and are counted") {
  Court court;
  court.stream(1);
  for (Ns at = 0; at <= 60 * kSecond; at += ms(200)) {
    if (at == 30 * kSecond) court.lost(at - ms(150), at - ms(50));
    court.chunk(1, at, at);
  }
  court.end(60 * kSecond);
  const auto windows = only<WindowFinding>(court.findings);
  REQUIRE(windows.size() == 1);
  CHECK(windows[0].gaps == 299);
  const auto summary = court.summary();
  CHECK(summary.gaps_with_loss == 1);
  CHECK(summary.unjudged == 1);
  REQUIRE(summary.unjudged_share());
  CHECK(*summary.unjudged_share() == 1.0 / 300);
}

TEST_CASE("without a gap above the budget no share of them is unjudged") {
  Court court;
  court.stream(1).chunk(1, 0, 0).lost(ms(10), ms(20)).chunk(1, ms(50), ms(50)).end();
  CHECK_FALSE(court.summary().unjudged_share());
  CHECK(court.summary().gaps_with_loss == 1);
}

}  // namespace
}  // namespace gcause
