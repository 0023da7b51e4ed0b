// SPDX-License-Identifier: Apache-2.0
//
// How much of a gap its thread was runnable without a CPU.
#include "attribution/run_delays.h"

#include <catch2/catch_test_macros.hpp>

#include "attribution_test_support.h"

namespace gcause {
namespace {

using test::Court;
using test::ms;

constexpr auto kReader = Court::kReader;
constexpr auto kOther = Court::kOther;

std::uint32_t us(std::uint32_t milliseconds) { return 1'000 * milliseconds; }

TEST_CASE("the newest sum at or before a time") {
  RunDelays delays;
  CHECK_FALSE(delays.before(1, 100));
  delays.add(1, 10, 5);
  delays.add(1, 20, 7);
  delays.add(1, 20, 9);
  delays.add(1, 15, 11);
  delays.add(2, 30, 13);
  CHECK_FALSE(delays.before(1, 9));
  CHECK(delays.before(1, 10)->sum == 5);
  CHECK(delays.before(1, 19)->sum == 5);
  CHECK(delays.before(1, 20)->sum == 7);
  CHECK(delays.before(1, 99)->sum == 7);
  CHECK(delays.before(2, 99)->at == 30);
}

TEST_CASE("the last 1024 sums of a thread are kept") {
  RunDelays delays;
  for (std::uint32_t i = 0; i < 2'000; ++i) delays.add(1, i, i);
  CHECK_FALSE(delays.before(1, 975));
  CHECK(delays.before(1, 976)->sum == 976);
}

TEST_CASE("sums go on from 0 behind 2^32") {
  CHECK(RunDelays::between(7, 10) == 3 * kMicrosecond);
  CHECK(RunDelays::between(0xFFFFFFFE, 3) == 5 * kMicrosecond);
}

/// A chunk that names the sum of its thread.
TimelineEvent chunk(std::uint32_t index, Ns read, Ns arrival, std::optional<std::uint32_t> sum,
                    std::uint32_t tid = kReader) {
  return ChunkRead{1, index, Court::kPid, tid, 8, read, arrival, sum};
}

TEST_CASE("a gap says how long its thread had no CPU") {
  Court court;
  court.stream(1).take(chunk(0, 0, 0, us(7))).take(chunk(1, ms(200), ms(50), us(127))).end();
  CHECK(court.gap(1, 1).process == ms(150));
  CHECK(court.gap(1, 1).cpu_wait == ms(120));
  CHECK(court.gap(1, 1).verdict == Verdict::process);
}

TEST_CASE("it is at most the process's part") {
  Court court;
  court.stream(1).take(chunk(0, 0, 0, us(7))).take(chunk(1, ms(200), ms(150), us(127))).end();
  CHECK(court.gap(1, 1).cpu_wait == ms(50));
}

TEST_CASE("it is not known without both sums, or where two threads read") {
  const auto wait = [](std::optional<std::uint32_t> one, std::optional<std::uint32_t> other,
                       std::uint32_t tid) {
    Court court;
    court.stream(1).take(chunk(0, 0, 0, one)).take(chunk(1, ms(200), 0, other, tid)).end();
    return court.gap(1, 1).cpu_wait;
  };
  CHECK(wait(5, 5, kReader) == 0);
  CHECK_FALSE(wait(std::nullopt, 5, kReader));
  CHECK_FALSE(wait(5, std::nullopt, kReader));
  CHECK_FALSE(wait(5, 5, kOther));
}

TEST_CASE("what the thread waited for before it asked for more is not counted") {
  Court court;
  court.stream(1).take(chunk(0, 0, 0, us(7)));
  court.take(WaitBegan{ms(60), Court::kPid, kReader, us(47)});
  court.take(WaitBegan{ms(61), Court::kPid, kOther, us(60)});
  SECTION("where that was before the arrival") {
    court.take(chunk(1, ms(300), ms(100), us(117))).end();
    CHECK(court.gap(1, 1).cpu_wait == ms(70));
  }
  SECTION("but is where it was behind it") {
    court.take(chunk(1, ms(300), ms(50), us(117))).end();
    CHECK(court.gap(1, 1).cpu_wait == ms(110));
  }
}

TEST_CASE("reads of other streams are sums of their thread, too") {
  Court court;
  court.stream(1).stream(2).take(chunk(0, 0, 0, us(0)));
  court.take(ChunkRead{2, 0, Court::kPid, kReader, 8, ms(80), ms(80), us(30)});
  court.take(chunk(1, ms(300), ms(90), us(50))).end();
  CHECK(court.gap(1, 1).cpu_wait == ms(20));
}

/// A gap with a pause of 100 ms, of which `cpu` was on the CPU, and 100 ms of process behind it.
std::optional<Ns> wait_beside_pause(std::uint32_t tid, std::optional<Ns> cpu, std::uint32_t sum) {
  Court court;
  court.stream(1).take(chunk(0, 0, 0, 0));
  court.take(PauseBegan{ms(10), Court::kPid, tid});
  PauseEnded pause{};
  pause.id = 1;
  pause.pid = Court::kPid;
  pause.tid = tid;
  pause.begin = ms(10);
  pause.end = ms(110);
  pause.cpu = cpu;
  court.take(pause).take(chunk(1, ms(200), 0, sum)).end();
  CHECK(court.gap(1, 1).process == ms(100));
  return court.gap(1, 1).cpu_wait;
}

TEST_CASE("a pause of the thread itself that had no CPU is not counted again") {
  CHECK(wait_beside_pause(kReader, ms(30), us(90)) == ms(20));
  CHECK(wait_beside_pause(kReader, ms(100), us(60)) == ms(60));
  CHECK(wait_beside_pause(kReader, ms(30), us(60)) == 0);
  CHECK_FALSE(wait_beside_pause(kReader, std::nullopt, us(60)));
  CHECK(wait_beside_pause(kOther, ms(30), us(60)) == ms(60));
}

}  // namespace
}  // namespace gcause
