// SPDX-License-Identifier: Apache-2.0
#include "attribution/pause_log.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <vector>

namespace gcause {
namespace {

std::vector<std::uint64_t> ids_in(const PauseLog& log, Ns from, Ns to) {
  std::vector<std::uint64_t> ids;
  log.for_each_in(from, to, [&](const PauseLog::Pause& pause) { ids.push_back(pause.id); });
  return ids;
}
using Ids = std::vector<std::uint64_t>;

TEST_CASE("the intersection of intervals that touch or do not meet is nothing") {
  CHECK(intersection(0, 10, 5, 20) == 5);
  CHECK(intersection(5, 20, 0, 10) == 5);
  CHECK(intersection(0, 100, 40, 50) == 10);
  CHECK(intersection(0, 10, 10, 20) == 0);
  CHECK(intersection(0, 10, 15, 20) == 0);
  CHECK(intersection(5, 5, 0, 10) == 0);
}

TEST_CASE("an empty log covers nothing") {
  const PauseLog log;
  CHECK(log.covered(9, 0, 100) == 0);
  CHECK(log.free_at(1, 7) == 7);
  CHECK(ids_in(log, 0, 100).empty());
}

TEST_CASE("a finished pause covers its part of an interval") {
  PauseLog log;
  log.open(1, 10);
  log.close({10, 20, 1, 1});
  CHECK(log.covered(9, 0, 100) == 10);
  CHECK(log.covered(9, 12, 15) == 3);
  CHECK(log.covered(9, 15, 100) == 5);
  CHECK(log.covered(9, 0, 10) == 0);
  CHECK(log.covered(9, 20, 30) == 0);
  CHECK(log.covered(9, 30, 20) == 0);
}

TEST_CASE("pauses that overlap, contain or touch each other cover once") {
  PauseLog log;
  log.close({10, 20, 1, 1});
  log.close({15, 30, 2, 2});
  log.close({30, 40, 3, 3});
  log.close({35, 50, 4, 1});
  log.close({5, 60, 5, 2});
  log.close({70, 80, 6, 1});
  CHECK(log.covered(9, 0, 100) == 65);
  CHECK(log.covered(9, 55, 75) == 10);
}

TEST_CASE("pauses that overlap by one tick cover that tick once") {
  PauseLog log;
  log.close({10, 20, 1, 1});
  log.close({19, 30, 2, 2});
  CHECK(log.covered(9, 0, 100) == 20);
}

TEST_CASE("a pause counts when it is over") {
  PauseLog log;
  log.close({10, 20, 1, 1});
  log.open(1, 30);
  CHECK(log.covered(9, 0, 100) == 10);
  log.cancel(1);
  CHECK(log.covered(9, 0, 100) == 10);
  log.open(1, 40);
  log.close({40, 50, 2, 1});
  CHECK(log.covered(9, 0, 100) == 20);
}

TEST_CASE("a thread is free at the end of the pauses of others that follow on each other") {
  PauseLog log;
  CHECK(log.free_at(9, 15) == 15);
  log.open(1, 10);
  CHECK(log.free_at(9, 5) == 5);
  CHECK_FALSE(log.free_at(9, 15));
  CHECK(log.free_at(1, 15) == 15);
  log.open(2, 12);
  log.close({10, 20, 1, 1});
  CHECK_FALSE(log.free_at(9, 15));
  log.close({12, 30, 2, 2});
  CHECK(log.free_at(9, 15) == 30);
  CHECK(log.free_at(9, 30) == 30);
  CHECK(log.free_at(1, 15) == 30);
  CHECK(log.free_at(2, 15) == 20);
  log.open(3, 40);
  CHECK(log.free_at(9, 15) == 30);
  CHECK_FALSE(log.free_at(9, 40));
  log.cancel(3);
  CHECK(log.free_at(9, 40) == 40);
}

TEST_CASE("only pauses that overlap by more than nothing are visited, by their ends") {
  PauseLog log;
  log.close({10, 20, 1, 1});
  log.close({22, 30, 2, 2});
  log.close({12, 40, 3, 1});
  log.close({50, 60, 4, 1});
  CHECK(ids_in(log, 0, 100) == Ids{1, 2, 3, 4});
  CHECK(ids_in(log, 20, 22) == Ids{3});
  CHECK(ids_in(log, 25, 50) == Ids{2, 3});
  CHECK(ids_in(log, 59, 70) == Ids{4});
  CHECK(ids_in(log, 40, 51) == Ids{4});
  CHECK(ids_in(log, 40, 50).empty());
  CHECK(ids_in(log, 60, 90).empty());
}

TEST_CASE("a long pause that ended last is found behind short ones") {
  PauseLog log;
  for (Ns i = 0; i < 10; ++i) log.close({100 + 10 * i, 105 + 10 * i, 1, 1});
  log.close({0, 300, 2, 2});
  CHECK(ids_in(log, 0, 50) == Ids{2});
  CHECK(log.covered(9, 0, 50) == 50);
}

TEST_CASE("what ended by a time can be forgotten, and nothing else is") {
  PauseLog log;
  log.close({10, 20, 1, 1});
  log.close({30, 40, 2, 1});
  log.close({50, 60, 3, 1});
  log.forget_before(40);
  CHECK(log.size() == 1);
  CHECK(log.covered(9, 0, 100) == 10);
  CHECK(ids_in(log, 0, 100) == Ids{3});
  log.forget_before(59);
  CHECK(log.size() == 1);
}

TEST_CASE("a pause with windows stops its own thread all the time, and others in the windows") {
  PauseLog log;
  log.open(1, 10);
  log.close({10, 100, 1, 1, {}, {{20, 30}, {60, 80}}});
  CHECK(log.covered(1, 0, 200) == 90);
  CHECK(log.covered(2, 0, 200) == 30);
  CHECK(log.covered(2, 25, 70) == 15);
  CHECK(log.covered(2, 30, 60) == 0);
  CHECK(log.free_at(2, 15) == 15);
  CHECK(log.free_at(2, 20) == 20);
  CHECK(log.free_at(2, 21) == 30);
  CHECK(log.free_at(2, 30) == 30);
  CHECK(log.free_at(2, 79) == 80);
  CHECK(log.free_at(2, 90) == 90);
  CHECK(log.free_at(1, 25) == 25);
  CHECK(ids_in(log, 30, 60) == Ids{1});
  std::vector<Ns> stopped;
  log.for_each_in(0, 200, [&](const PauseLog::Pause& pause) {
    for (const std::uint32_t tid : {1, 2}) stopped.push_back(log.stopped_by(pause, tid, 25, 70));
  });
  CHECK(stopped == std::vector<Ns>{45, 15});
}

TEST_CASE("windows of several pauses follow on each other, in whatever order the pauses end") {
  PauseLog log;
  log.close({20, 70, 1, 1, {}, {{40, 50}}});
  log.close({10, 100, 2, 2, {}, {{30, 41}, {90, 95}}});
  log.close({0, 110, 3, 3, {}, {{45, 60}}});
  CHECK(log.free_at(9, 35) == 60);
  CHECK(log.covered(9, 0, 200) == 35);
}

TEST_CASE("windows outside of their pause, or turned around, stop nobody") {
  PauseLog log;
  log.close({50, 60, 1, 1, {}, {{0, 40}, {58, 90}, {57, 52}, {55, 59}}});
  CHECK(log.covered(9, 0, 200) == 5);
  CHECK(log.free_at(9, 10) == 10);
}

TEST_CASE("a pause stops the threads of the interpreters under its lock, and the unknown ones") {
  PauseLog log;
  log.set_lock(0, 0);
  log.set_lock(1, 1);
  log.set_lock(2, 0);
  log.set_interpreter(10, 0);
  log.set_interpreter(11, 1);
  log.set_interpreter(12, 2);
  log.close({10, 20, 1, 1, 1});
  CHECK(log.covered(10, 0, 100) == 0);
  CHECK(log.covered(11, 0, 100) == 10);
  CHECK(log.covered(12, 0, 100) == 0);
  CHECK(log.covered(13, 0, 100) == 10);
  CHECK(log.covered(1, 0, 100) == 10);
  CHECK(log.free_at(10, 15) == 15);
  CHECK(log.free_at(11, 15) == 20);
  log.close({30, 40, 2, 1, 0});
  CHECK(log.covered(12, 25, 100) == 10);
  CHECK(log.covered(11, 25, 100) == 0);
  log.close({50, 60, 3, 1, std::nullopt});
  log.close({70, 80, 4, 1, 7});  // an interpreter of which no lock is known
  CHECK(log.covered(11, 45, 100) == 20);
  log.set_interpreter(11, std::nullopt);
  CHECK(log.covered(11, 25, 100) == 30);
}

TEST_CASE("covered agrees with counting one tick after the other") {
  std::mt19937 engine(7);
  const auto between = [&](Ns low, Ns high) {
    return std::uniform_int_distribution<Ns>(low, high)(engine);
  };
  for (int round = 0; round < 200; ++round) {
    std::vector<PauseLog::Pause> pauses;
    for (Ns i = between(0, 12); i > 0; --i) {
      const Ns begin = between(0, 190);
      pauses.push_back({begin, between(begin, round % 2 ? 200 : begin + 10), 1, 1});
    }
    std::sort(pauses.begin(), pauses.end(),
              [](const auto& a, const auto& b) { return a.end < b.end; });
    PauseLog log;
    for (const auto& pause : pauses) log.close(pause);
    const Ns from = between(0, 200), to = between(0, 200);
    Ns counted = 0;
    for (Ns tick = from; tick < to; ++tick) {
      counted += std::any_of(pauses.begin(), pauses.end(), [&](const auto& pause) {
        return pause.begin <= tick && tick < pause.end;
      });
    }
    CAPTURE(round, from, to);
    REQUIRE(log.covered(9, from, to) == counted);
  }
}

}  // namespace
}  // namespace gcause
