// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <fstream>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

#include "sink/text.h"
#include "sink/text_layout.h"
#include "sink_test_support.h"

namespace gcause {
namespace {

using Catch::Matchers::ContainsSubstring;

constexpr Ns kStart = 1'000 * kSecond;

Ns ms(double value) { return static_cast<Ns>(value * 1e6); }

SessionStarted session() {
  return {"0.1.0", kStart, 1'700'000'000 * kSecond, ms(100), "6.18.0", {}};
}

ProcessFollowed process(std::uint32_t pid = 4242) {
  return {.pid = pid,
          .start_ticks = 7,
          .exe = "/usr/bin/python3.11",
          .python_version = "3.11.9",
          .free_threaded = false,
          .collector_method = CollectorMethod::usdt,
          .collector_object = "/usr/bin/python3.11",
          .collector_symbol = "gc__start",
          .collector_address = 0x1000,
          .tls = {{"libssl.so.3", {"SSL_read"}}},
          .seen_from = kStart};
}

PauseFinding pause(std::uint64_t id, std::optional<std::int32_t> generation, Ns at, Ns wall,
                   std::optional<Ns> cpu) {
  return {{.id = id,
           .pid = 4242,
           .tid = 4242,
           .interpreter = 0,
           .kind = PauseKind::gc,
           .generation = generation,
           .reason = PauseReason::automatic,
           .begin = kStart + at,
           .end = kStart + at + wall,
           .cpu = cpu,
           .collected = 12'000}};
}

GapFinding gap(std::uint64_t stream, Ns at, Ns length, Ns upstream, Ns charged,
               std::optional<Verdict> verdict, std::vector<PauseCharge> pauses = {}) {
  GapFinding gap;
  gap.stream = stream;
  gap.index = 9;
  gap.pid = 4242;
  gap.tid = 4242;
  gap.from = kStart + at;
  gap.to = kStart + at + length;
  gap.gap = length;
  gap.upstream = upstream;
  gap.charged = charged;
  gap.process = length - upstream - charged;
  gap.but_for = length - charged;
  gap.over_budget = length > ms(100);
  gap.verdict = verdict;
  gap.basis = Basis::arrival;
  gap.pauses = std::move(pauses);
  return gap;
}

StreamFinding stream(std::uint64_t id, std::optional<std::string> host,
                     std::optional<std::string> model, std::uint64_t chunks, StreamEnd end) {
  return {.began = {.id = id,
                    .pid = 4242,
                    .direction = StreamDirection::read,
                    .peer = {},
                    .host = std::move(host),
                    .tls = true,
                    .protocol = StreamProtocol::http1,
                    .begin = kStart,
                    .request_end = {}},
          .ended = {.id = id,
                    .pid = 4242,
                    .at = kStart + 60 * kSecond,
                    .end = end,
                    .model = std::move(model),
                    .comments = 0,
                    .bytes = 100'000},
          .first_chunk = FirstChunk{.time = ms(245), .but_for = ms(245)},
          .chunks = chunks};
}

/// A window of a minute that ended `at` seconds behind the start.
WindowFinding minute(Ns at, Ns p99, Ns but_for) {
  WindowFinding window;
  window.pid = 4242;
  window.to = kStart + at * kSecond;
  window.from = window.to - 60 * kSecond;
  window.news_from = at == 60 ? window.from : window.to - kWindowStep;
  window.gaps = 1'000;
  window.p99 = p99;
  window.but_for_p99 = but_for;
  window.budget_kept = p99 <= ms(100);
  window.but_for_kept = but_for <= ms(100);
  return window;
}

SummaryFinding broken_summary() {
  SummaryFinding summary;
  summary.pid = 4242;
  summary.pauses = {311, ms(2340), ms(218), ms(1.02), ms(187)};
  summary.by_generation[0] = {282, ms(287), ms(2.1), ms(1.01), ms(1.9)};
  summary.by_generation[1] = {25, ms(1453), ms(70.2), ms(55), ms(70.2)};
  summary.by_generation[2] = {4, ms(600), ms(218), ms(150), ms(218)};
  summary.streams = 10;
  summary.chunks = 10'240;
  summary.gap = {10'230, ms(38), ms(61), ms(412), ms(530)};
  summary.but_for = {10'230, ms(36), ms(55), ms(71.2), ms(400)};
  summary.first_chunk = {10, ms(245), ms(700), ms(1820), ms(1820)};
  summary.first_chunk_but_for = {10, ms(245), ms(690), ms(1610), ms(1610)};
  summary.verdicts = {
      {Verdict::gc, 120}, {Verdict::gc_partial, 1}, {Verdict::upstream, 2}, {Verdict::process, 1}};
  summary.over_budget = 125;
  summary.unjudged = 1;
  summary.budget_kept = false;
  summary.but_for_kept = true;
  summary.lost = 140;
  summary.windows = {{60 * kSecond, 10, 1, 5, 4, minute(80, ms(412), ms(71.2))},
                     {300 * kSecond, 0, 0, 0, 0, {}},
                     {std::nullopt, 1, 0, 1, 1, minute(150, ms(412), ms(71.2))}};
  return summary;
}

/// The case of the background page: full collections break the budget of a chat client. With one of
/// each verdict, a descheduled pause, a loss and text that a hostile target made up.
std::vector<Finding> broken() {
  std::vector<Finding> findings{session(), process()};
  findings.emplace_back(pause(3, 0, ms(900), ms(1.2), ms(1.2)));
  findings.emplace_back(pause(16, 2, ms(8'000), ms(140), ms(20)));
  findings.emplace_back(pause(17, 2, ms(12'400), ms(218), ms(217)));
  findings.emplace_back(pause(18, 1, ms(12'640), ms(70.2), ms(70)));
  findings.emplace_back(pause(19, 0, ms(12'720), ms(2), std::nullopt));
  findings.emplace_back(gap(1, ms(500), ms(20), ms(19), 0, std::nullopt));

  auto worst = gap(1, ms(12'345), ms(412), ms(40), ms(290.2), Verdict::gc,
                   {{19, ms(2)}, {17, ms(218)}, {18, ms(70.2)}});
  worst.but_for = ms(71.2);
  worst.burst = 11;
  findings.emplace_back(worst);
  findings.emplace_back(gap(2, ms(7'990), ms(190), ms(10), ms(140), Verdict::gc, {{16, ms(140)}}));
  findings.emplace_back(
      gap(2, ms(12'390), ms(530), ms(300), ms(218), Verdict::gc_partial, {{17, ms(218)}}));
  auto upstream = gap(3, ms(800), ms(400), ms(395), 0, Verdict::upstream);
  upstream.exonerated = {3};
  findings.emplace_back(upstream);
  auto busy = gap(3, ms(30'000), ms(150), ms(10), 0, Verdict::process);
  busy.cpu_wait = ms(120);
  findings.emplace_back(busy);
  auto overlap = gap(4, ms(40'000), ms(160), 0, ms(90), Verdict::gc, {{99, ms(90)}});
  overlap.basis = Basis::overlap;
  findings.emplace_back(overlap);
  findings.emplace_back(gap(4, ms(50'000), ms(120), 0, 0, std::nullopt));
  findings.emplace_back(Lost{4242, "the ring of socket records", 128, kStart, kStart + kSecond});
  findings.emplace_back(Lost{std::nullopt, "the ring of gc records", 12, kStart, kStart + kSecond});

  findings.emplace_back(stream(1, "api.openai.com", "gpt-4o-mini", 1'201, StreamEnd::done));
  findings.emplace_back(stream(2, "api.openai.com", "gpt-4o", 1'180, StreamEnd::reset));
  findings.emplace_back(
      stream(3, "evil\x1b[31m\xff.example", std::nullopt, 40, StreamEnd::truncated));
  findings.emplace_back(stream(4, "a-very-long-host-name.inference.internal.cluster.example.com",
                               "meta-llama/Llama-3.3-70B-Instruct-with-a-long-suffix-behind-it",
                               900, StreamEnd::open));
  for (const auto& window :
       {minute(60, ms(90), ms(60)), minute(70, ms(310), ms(61)), minute(80, ms(412), ms(71.2)),
        minute(90, ms(350), ms(70)), minute(100, ms(90), ms(60)), minute(130, ms(200), ms(150)),
        minute(140, ms(150), ms(40))}) {
    findings.emplace_back(window);
  }
  findings.emplace_back(broken_summary());
  return findings;
}

std::vector<Finding> nothing() {
  SummaryFinding summary;
  summary.pid = 4242;
  auto followed = process();
  followed.tls.clear();
  return {session(), followed, summary};
}

/// Two processes: one keeps the budget, the other breaks it and would without the collector too.
std::vector<Finding> two_processes() {
  SummaryFinding kept;
  kept.pid = 4242;
  kept.pauses = {1, ms(3), ms(3), ms(3), ms(3)};
  kept.by_generation[std::nullopt] = kept.pauses;
  kept.streams = 1;
  kept.chunks = 61;
  kept.gap = {60, ms(20), ms(30), ms(40), ms(40)};
  kept.but_for = {60, ms(20), ms(30), ms(38), ms(38)};

  SummaryFinding upstream = kept;
  upstream.pid = 4300;
  upstream.gap = {6'000, ms(20), ms(90), ms(412), ms(500)};
  upstream.but_for = {6'000, ms(20), ms(90), ms(400), ms(500)};
  upstream.verdicts[Verdict::upstream] = 70;
  upstream.over_budget = 70;
  upstream.budget_kept = false;
  upstream.but_for_kept = false;
  auto other = process(4300);
  other.exe = "/opt/conda/envs/inference-server-production/bin/python3.13t";
  other.python_version = "3.13.5";
  other.free_threaded = true;
  return {session(),
          process(),
          other,
          pause(1, std::nullopt, ms(100), ms(3), std::nullopt),
          gap(1, ms(50), ms(40), ms(38), 0, std::nullopt),
          stream(1, "localhost", "m", 61, StreamEnd::done),
          kept,
          upstream};
}

/// A gateway: what it reads keeps the budget, what it writes does not, for one minute.
std::vector<Finding> gateway() {
  SummaryFinding summary;
  summary.pid = 4242;
  summary.pauses = {1, ms(218), ms(218), ms(218), ms(218)};
  summary.by_generation[2] = summary.pauses;
  auto& read = summary.by_direction[StreamDirection::read];
  read.streams = 10;
  read.chunks = 9'010;
  read.gap = {9'000, ms(20), ms(30), ms(40), ms(240)};
  read.but_for = {9'000, ms(20), ms(30), ms(38), ms(39)};
  read.first_chunk = {10, ms(245), ms(700), ms(1820), ms(1820)};
  read.first_chunk_but_for = read.first_chunk;
  auto& written = summary.by_direction[StreamDirection::write];
  written = read;
  written.chunks = 1'010;
  written.gap = {1'000, ms(20), ms(30), ms(250), ms(250)};
  written.but_for = {1'000, ms(20), ms(30), ms(39), ms(39)};
  written.verdicts[Verdict::gc] = 12;
  written.over_budget = 12;
  written.budget_kept = false;
  written.since_source = {1'000, ms(0.3), ms(0.5), ms(221), ms(230)};
  static_cast<StreamTotals&>(summary) = written;
  summary.gap = {10'000, ms(20), ms(30), ms(45), ms(250)};
  auto bad = minute(60, ms(250), ms(39));
  bad.direction = StreamDirection::write;
  summary.windows = {{60 * kSecond, 2, 0, 0, 0, minute(60, ms(40), ms(38))},
                     {60 * kSecond, 2, 0, 1, 1, bad, StreamDirection::write}};
  auto served = stream(1, "gateway.example", "m", 101, StreamEnd::done);
  served.began.direction = StreamDirection::write;
  return {session(),
          process(),
          pause(17, 2, ms(12'400), ms(218), ms(217)),
          gap(1, ms(12'345), ms(250), ms(20), ms(218), Verdict::gc, {{17, ms(218)}}),
          bad,
          served,
          stream(2, "api.example", "m", 901, StreamEnd::done),
          summary};
}

std::string report(const std::vector<Finding>& findings, TextOptions options = {}) {
  return test::written_by<TextSink>(findings, options);
}

/// Compares with tests/unit/golden/NAME; with GCAUSE_UPDATE_GOLDEN set it writes that file instead.
void check_golden(const std::string& name, const std::string& text) {
  const std::string path = std::string(GCAUSE_TEST_DATA) + "/golden/" + name;
  if (std::getenv("GCAUSE_UPDATE_GOLDEN") != nullptr) std::ofstream(path) << text;
  CHECK(text == test::read_file(path));
}

std::size_t widest_line(const std::string& text) {
  std::istringstream in(text);
  std::size_t widest = 0;
  for (std::string line; std::getline(in, line);) widest = std::max(widest, line.size());
  return widest;
}

TEST_CASE("report of a budget that the collector broke") {
  const std::string text = report(broken(), {.duration = 150'000 * kMillisecond});
  check_golden("report_broken.txt", text);
  CHECK(widest_line(text) <= 100);
}

TEST_CASE("report of a recording in which nothing was seen") {
  check_golden("report_nothing.txt", report(nothing()));
}

TEST_CASE("report of two processes") {
  const std::string text = report(two_processes());
  check_golden("report_two_processes.txt", text);
  CHECK(widest_line(text) <= 100);
}

TEST_CASE("report of a gateway, whose two directions are told apart") {
  const std::string text = report(gateway(), {.duration = 150'000 * kMillisecond});
  check_golden("report_gateway.txt", text);
  CHECK(widest_line(text) <= 100);
}

TEST_CASE(
    "where the CPU is what the process lacked, the report says so, whatever the collector did") {
  const auto report_of = [](Ns cpu_wait, Verdict verdict) {
    auto lacking = gap(1, ms(500), ms(150), ms(10), 0, verdict);
    lacking.cpu_wait = cpu_wait;
    SummaryFinding summary;
    summary.pid = 4242;
    summary.gap = {1, ms(150), ms(150), ms(150), ms(150)};
    summary.verdicts[verdict] = 1;
    summary.over_budget = 1;
    summary.budget_kept = summary.but_for_kept = false;
    return report({session(), process(), lacking, summary});
  };
  const std::string lacked = report_of(ms(70) + 1, Verdict::process);
  CHECK_THAT(lacked,
             ContainsSubstring("what to do\n  No CPU: in 1 of 1 gap with the verdict process"));
  CHECK_THAT(lacked, ContainsSubstring("70.0 ms of 140 ms"));
  CHECK_THAT(lacked, ContainsSubstring("runnable without a CPU for 70.0 ms"));
  CHECK_THAT(report_of(ms(70), Verdict::process), !ContainsSubstring("CPU:"));
  CHECK_THAT(report_of(ms(140), Verdict::upstream), !ContainsSubstring("CPU:"));
}

TEST_CASE("where the interpreter lock is what the process lacked, the report says so") {
  const auto report_of = [](Ns lock_wait, Ns cpu_wait) {
    auto lacking = gap(1, ms(500), ms(150), ms(10), 0, Verdict::process);
    lacking.lock_wait = lock_wait;
    lacking.cpu_wait = cpu_wait;
    SummaryFinding summary;
    summary.pid = 4242;
    summary.gap = {1, ms(150), ms(150), ms(150), ms(150)};
    summary.verdicts[Verdict::process] = 1;
    summary.over_budget = 1;
    summary.budget_kept = summary.but_for_kept = false;
    return report({session(), process(), lacking, summary});
  };
  const std::string lacked = report_of(ms(130), 0);
  CHECK_THAT(lacked,
             ContainsSubstring("what to do\n  No lock: in 1 of 1 gap with the verdict process"));
  CHECK_THAT(lacked, ContainsSubstring("130 ms of 140 ms"));
  CHECK_THAT(lacked, ContainsSubstring("waited for the interpreter lock for 130 ms"));
  CHECK_THAT(report_of(ms(70), 0), !ContainsSubstring("lock"));
  // It looks for the lock now and then: without a CPU that, too, is late.
  CHECK_THAT(report_of(ms(130), ms(100)), !ContainsSubstring("lock"));
}

TEST_CASE("streams that were cut in a pause are named") {
  auto cut = stream(3, {}, {}, 12, StreamEnd::reset);
  cut.cut_in_pause = 1;
  SummaryFinding summary;
  summary.pid = 4242;
  summary.streams = 2;
  const auto whole = stream(4, {}, {}, 12, StreamEnd::done);
  const auto pages =
      report({session(), process(), pause(1, 2, ms(100), ms(1'500), {}), cut, whole, summary});
  CHECK_THAT(
      pages,
      ContainsSubstring(
          "1 stream was cut off while a pause stopped its thread: #3 (reset, pause of 1.50 s)"));
  CHECK_THAT(report({session(), process(), whole, summary}), !ContainsSubstring("cut off"));
}

TEST_CASE("a narrow page is kept to") {
  CHECK(widest_line(report(broken(), {.width = 80})) <= 80);
  CHECK(widest_line(report(broken(), {.width = 1'000})) <= 100);
}

TEST_CASE("colour changes nothing but colour") {
  const std::string colored = report(broken(), {.color = true});
  CHECK_THAT(colored, ContainsSubstring("\x1b[1;31mbudget 100 ms BROKEN\x1b[0m: p99"));
  CHECK(std::regex_replace(colored, std::regex("\x1b\\[[0-9;]*m"), "") == report(broken()));
}

TEST_CASE("nothing but printable ASCII reaches the terminal") {
  const std::string text = report(broken());
  CHECK(std::ranges::all_of(text, [](char c) { return c == '\n' || (c >= 0x20 && c < 0x7f); }));
}

TEST_CASE("the report needs no order of pauses and streams before gaps") {
  auto findings = broken();
  std::ranges::reverse(findings.begin() + 2, findings.end());
  CHECK(report(findings) == report(broken()));
}

TEST_CASE("only the ten worst gaps and streams are listed") {
  std::vector<Finding> findings{session(), process()};
  for (std::uint64_t i = 1; i <= 30; ++i) {
    findings.emplace_back(
        gap(i, ms(10), ms(1'000) + static_cast<Ns>(i) * kSecond, ms(1'000), 0, Verdict::upstream));
  }
  auto summary = broken_summary();
  findings.emplace_back(summary);
  const std::string text = report(findings);
  CHECK_THAT(text, ContainsSubstring("#21") && ContainsSubstring("#30"));
  CHECK_THAT(text, !ContainsSubstring("#20"));
}

TEST_CASE("the collector's settings and what changed of them") {
  auto followed = process();
  followed.gc = CollectorSettings{true, {700, 10, 10}, {1, 2, 3}, 0};
  const auto changed = [](std::optional<bool> enabled, std::vector<std::int64_t> thresholds,
                          std::optional<std::int64_t> frozen, std::int64_t interpreter = 0) {
    return SettingsChanged{
        kStart, 4242, interpreter, {enabled, std::move(thresholds), {0, 0, 0}, frozen}};
  };
  const std::string first = "  collector  enabled, thresholds 700/10/10, nothing frozen";
  const auto text = [&](std::vector<Finding> findings) {
    findings.insert(findings.begin(), {session(), followed});
    findings.emplace_back(broken_summary());
    return report(findings);
  };
  SECTION("none") { CHECK_THAT(text({}), ContainsSubstring(first + "\n")); }
  SECTION("those of another interpreter are not the main one's") {
    CHECK_THAT(text({changed(false, {1, 2, 3}, 4, 1)}), ContainsSubstring(first + "\n"));
  }
  SECTION("one") {
    CHECK_THAT(text({changed(false, {700, 10, 10}, 0)}),
               ContainsSubstring(first + "; changed 1 time, now disabled\n"));
  }
  SECTION("several: the last counts") {
    const auto all = text({changed(false, {700, 10, 10}, 0), changed(false, {50'000, 5, 5}, 0),
                           changed(true, {50'000, 5, 5}, 12'345)});
    CHECK_THAT(all, ContainsSubstring(first + "; changed 3 times, now thresholds\n"
                                              "             50000/5/5, 12,345 objects "
                                              "frozen\n"));
  }
  SECTION("back to where they were") {
    CHECK_THAT(text({changed(false, {700, 10, 10}, 0), changed(true, {700, 10, 10}, 0)}),
               ContainsSubstring("; changed 2 times, now as before\n"));
  }
  SECTION("a process that had none when it was followed: its first are no change") {
    followed.gc.reset();
    CHECK_THAT(text({changed(true, {700, 10, 10}, 0)}), ContainsSubstring(first + "\n"));
  }
  SECTION("what is not known is left out") {
    followed.gc = CollectorSettings{false, {700, 10, 10}, {}, {}};
    CHECK_THAT(text({}), ContainsSubstring("  collector  disabled, thresholds 700/10/10\n"));
    followed.gc.reset();
    CHECK_THAT(text({}), !ContainsSubstring("  collector  "));
  }
  SECTION("beside no pause at all") {
    SummaryFinding summary;
    summary.pid = 4242;
    followed.gc->enabled = false;
    CHECK_THAT(report({session(), followed, summary}),
               ContainsSubstring("pauses\n  collector  disabled, thresholds 700/10/10, nothing "
                                 "frozen\nno pause was seen"));
  }
}

TEST_CASE("the lines of code that started long pauses, the dearest first") {
  const auto pause = [](std::uint64_t id, Ns wall, std::int64_t line) {
    PauseEnded ended{};
    ended.id = id;
    ended.pid = 4242;
    ended.begin = kStart;
    ended.end = kStart + wall;
    if (line > 0) ended.trigger = Trigger{"/srv/app/index.py", line, "build"};
    return PauseFinding{ended};
  };
  const std::string text = report({session(), process(), pause(1, ms(2), 7), pause(2, ms(30), 9),
                                   pause(3, ms(40), 9), pause(4, ms(900), 0), broken_summary()});
  CHECK_THAT(text, ContainsSubstring("  long pauses were started by\n"
                                     "  count    total      max  line\n"
                                     "      2  70.0 ms  40.0 ms  /srv/app/index.py:9 in build\n"
                                     "      1  2.00 ms  2.00 ms  /srv/app/index.py:7 in build\n"));
  CHECK_THAT(report({session(), process(), pause(1, ms(2), 0), broken_summary()}),
             !ContainsSubstring("started by"));
}

TEST_CASE("a pid that is used again is another process") {
  auto second = process();
  second.start_ticks = 8;
  SummaryFinding summary;
  summary.pid = 4242;
  const std::string text =
      report({session(), process(), summary, second, summary}, {.duration = kSecond});
  const std::string title = "pid 4242, /usr/bin/python3.11, CPython 3.11.9, 1.00 s recorded\n";
  const auto first = text.find(title);
  REQUIRE(first != std::string::npos);
  CHECK(text.find(title, first + 1) != std::string::npos);
}

TEST_CASE("the hint names the cure that the figures support") {
  const auto hint_for = [](PauseFinding finding) {
    SummaryFinding summary = broken_summary();
    return report({session(), process(), finding,
                   gap(1, ms(10), ms(300), 0, ms(290), Verdict::gc, {{5, ms(290)}}), summary});
  };
  auto finding = pause(5, 2, ms(10), ms(290), ms(289));
  SECTION("full collections") {
    CHECK_THAT(hint_for(finding), ContainsSubstring("Generation 2 did the harm: 290 ms") &&
                                      ContainsSubstring("gc.freeze()"));
  }
  SECTION("young collections") {
    finding.pause.generation = 0;
    CHECK_THAT(hint_for(finding), ContainsSubstring("a lower first threshold"));
  }
  SECTION("no CPU") {
    finding.pause.cpu = ms(100);
    CHECK_THAT(hint_for(finding), ContainsSubstring("the cure is CPU (limits"));
  }
  SECTION("the program's own calls") {
    finding.pause.reason = PauseReason::manual;
    CHECK_THAT(hint_for(finding), ContainsSubstring("Calls of gc.collect() did the harm"));
  }
  SECTION("stop-the-world") {
    finding.pause.kind = PauseKind::stop_the_world;
    CHECK_THAT(hint_for(finding), ContainsSubstring("Thresholds do not change them"));
  }
  SECTION("no hint where nothing is known of the pause") {
    finding.pause.id = 6;
    CHECK_THAT(hint_for(finding), !ContainsSubstring("what to do"));
  }
}

TEST_CASE("findings without a summary or a process still make a report") {
  CHECK(report({}) == "no process was recorded\n");
  CHECK_THAT(report({gap(1, 0, ms(300), 0, 0, Verdict::process)}), ContainsSubstring("cut off"));
}

TEST_CASE("layout helpers") {
  CHECK(format_count(0) == "0");
  CHECK(format_count(999) == "999");
  CHECK(format_count(1'000) == "1,000");
  CHECK(format_count(18'446'744'073'709'551'615ULL) == "18,446,744,073,709,551,615");
  CHECK(format_percent(38, 1'000) == "3.8 %");
  CHECK(format_percent(1, 3) == "33.3 %");
  CHECK(format_percent(1, 10'000) == "less than 0.1 %");
  CHECK(format_percent(0, 1) == "0.0 %");
  CHECK(printable("abcdef", 6) == "abcdef");
  CHECK(printable("abcdefg", 6) == "abc...");
  CHECK(wrap("aa bb cc", 5) == "aa bb\ncc\n");
  CHECK(wrap("aa bb cc", 6, "- ") == "- aa\n  bb\n  cc\n");
  CHECK(wrap("much-too-long b", 5) == "much-too-long\nb\n");
  CHECK(wrap("in 12 ms", 6) == "in\n12 ms\n");
}

TEST_CASE("the report names connections whose TLS cannot be read") {
  SummaryFinding summary;
  summary.pid = 42;
  summary.tls_unread = 2;
  const std::vector<Finding> findings{
      TlsUnreadFinding{{42, 70, 7, "10.0.0.1:443", 1, 2, 3, 4'096, 50 * kMillisecond, 6, 8},
                       "/opt/x.so"},
      TlsUnreadFinding{{42, 71, {}, {}, 1, 2, 9, 1, 0, 0, {}}, {}}, summary};
  const auto text = report(findings);
  // Those with most records come first.
  const auto first =
      text.find("TLS connection cannot be read (which library is not known): 9 records");
  const auto second =
      text.find("TLS connection on fd 7 to 10.0.0.1:443 cannot be read (library /opt/x.so): 3");
  CHECK(first < second);
  CHECK(second != std::string::npos);
  CHECK(text.find("timed by its records as stream #8") != std::string::npos);
  CHECK(text.find("no token stream was seen") == std::string::npos);
  CHECK(widest_line(text) <= 100);
}

}  // namespace
}  // namespace gcause
