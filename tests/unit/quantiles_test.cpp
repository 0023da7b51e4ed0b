// SPDX-License-Identifier: Apache-2.0
#include "attribution/quantiles.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <random>
#include <vector>

namespace gcause {
namespace {

TEST_CASE("nothing has a distribution of zeros") {
  Quantiles quantiles;
  const auto d = quantiles.distribution();
  CHECK(d.count == 0);
  CHECK(d.p50 == 0);
  CHECK(d.max == 0);
  CHECK(quantiles.totals().total == 0);
}

TEST_CASE("one value is every quantile") {
  Quantiles quantiles;
  quantiles.add(7);
  const auto d = quantiles.distribution();
  CHECK(d.p50 == 7);
  CHECK(d.p90 == 7);
  CHECK(d.p99 == 7);
  CHECK(d.max == 7);
}

TEST_CASE("a quantile is a value that was seen, at its nearest rank") {
  for (std::size_t count = 1; count <= 1'000; ++count) {
    Quantiles quantiles;
    for (std::size_t i = count; i > 0; --i) quantiles.add(static_cast<Ns>(10 * i));
    const auto rank = [&](std::size_t percent) {
      return static_cast<Ns>(10 * ((percent * count + 99) / 100));
    };
    const auto d = quantiles.distribution();
    if (d.p50 == rank(50) && d.p90 == rank(90) && d.p99 == rank(99) && d.max == rank(100)) continue;
    FAIL("count " << count << ": " << d.p50 << ' ' << d.p90 << ' ' << d.p99 << ' ' << d.max);
  }
}

TEST_CASE("the order of values does not matter, and more may follow a question") {
  std::vector<Ns> values(101);
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<Ns>(i / 3);
  std::mt19937 engine(1);
  std::shuffle(values.begin(), values.end(), engine);
  Quantiles quantiles;
  for (const auto value : values) quantiles.add(value);
  CHECK(quantiles.distribution().p50 == 16);
  CHECK(quantiles.distribution().p50 == 16);
  for (int i = 0; i < 300; ++i) quantiles.add(1'000);
  CHECK(quantiles.distribution().p50 == 1'000);
  CHECK(quantiles.count() == 401);
}

TEST_CASE("totals") {
  Quantiles quantiles;
  for (const Ns value : {5, 1, 3, 2, 4}) quantiles.add(value);
  const auto totals = quantiles.totals();
  CHECK(totals.count == 5);
  CHECK(totals.total == 15);
  CHECK(totals.max == 5);
  CHECK(totals.p50 == 3);
  CHECK(totals.p99 == 5);
}

}  // namespace
}  // namespace gcause
