// SPDX-License-Identifier: Apache-2.0
#include "util/time.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <limits>
#include <string>
#include <utility>

namespace gcause {
namespace {

using Catch::Matchers::ContainsSubstring;

TEST_CASE("a duration is a number and a unit") {
  const auto [text, ns] = GENERATE(table<std::string, Ns>({
      {"100ms", 100 * kMillisecond},
      {"1.5s", 1'500 * kMillisecond},
      {"250us", 250 * kMicrosecond},
      {"2m", 120 * kSecond},
      {"1h", 3'600 * kSecond},
      {"3", 3 * kSecond},
      {"0.5", 500 * kMillisecond},
      {"0.001us", 1},
      {"1.0000000000000000000001s", kSecond},
      {"007ms", 7 * kMillisecond},
      {"4611686018427387.903us", (Ns{1} << 62) - 1},
  }));
  INFO(text);
  const auto duration = parse_duration(text);
  REQUIRE(duration);
  CHECK(*duration == ns);
}

TEST_CASE("anything else is refused, with the text and the cure") {
  const std::string text = GENERATE(
      "", "-1s", "+1s", "10 ms", " 10ms", "10ms ", "1e3ms", "nan", "inf", "ms", "0", "0ms", "0.0s",
      "0.0001us", ".5s", "1.s", "1..5s", "1,5s", "1.5.5s", "5ns", "5S", "5sec", "0x10", "5min",
      "4611686018427387904us", "4611686018427387.904us", "9999999h", "18446744073709551616",
      "340282366920938463463374607431768211456h", "99999999999999999999999999999999999999999999s");
  INFO(text);
  const auto duration = parse_duration(text);
  REQUIRE_FALSE(duration);
  CHECK_THAT(duration.error().what, ContainsSubstring("'" + text.substr(0, 40)));
  CHECK_THAT(duration.error().cure, ContainsSubstring("100ms"));
}

TEST_CASE("a refused text cannot garble the terminal") {
  const auto duration = parse_duration("\x1b[2J" + std::string(200, 'x'));
  REQUIRE_FALSE(duration);
  CHECK(duration.error().what.find('\x1b') == std::string::npos);
  CHECK(duration.error().what.size() < 120);
}

TEST_CASE("durations for people have three significant digits") {
  const auto [ns, text] = GENERATE(table<Ns, std::string>({
      {0, "0 ms"},
      {1, "1 ns"},
      {999, "999 ns"},
      {1'000, "1.00 us"},
      {250 * kMicrosecond, "250 us"},
      {412 * kMillisecond, "412 ms"},
      {71'249'999, "71.2 ms"},
      {71'250'000, "71.3 ms"},
      {1'820 * kMillisecond, "1.82 s"},
      {9'999 * kMillisecond / 1'000, "10.0 ms"},
      {99'960'000, "100 ms"},
      {999'500'000, "1.00 s"},
      {999'499'999, "999 ms"},
      {100 * kMillisecond, "100 ms"},
      {61 * kSecond, "61.0 s"},
      {1'000 * kSecond, "16.7 min"},
      {100 * 3'600 * kSecond, "100 h"},
      {-412 * kMillisecond, "-412 ms"},
      {std::numeric_limits<Ns>::max(), "2562048 h"},
      {std::numeric_limits<Ns>::min(), "-2562048 h"},
  }));
  CHECK(format_duration(ns) == text);
}

}  // namespace
}  // namespace gcause
