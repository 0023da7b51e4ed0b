// SPDX-License-Identifier: Apache-2.0
#include "stream/thread_inputs.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <vector>

namespace gcause {
namespace {

Ns at_of(const std::optional<ThreadInputs::Input>& input) { return input ? input->at : -1; }

TEST_CASE("the newest input may not come from the stream's own connection") {
  ThreadInputs inputs;
  CHECK(at_of(inputs.newest_but(1)) == -1);
  inputs.add(1, {10, 9});
  CHECK(at_of(inputs.newest_but(1)) == -1);
  CHECK(at_of(inputs.newest_but(2)) == 10);
  inputs.add(2, {20, 19});
  inputs.add(2, {30, 29});
  CHECK(at_of(inputs.newest_but(1)) == 30);
  CHECK(at_of(inputs.newest_but(2)) == 10);
}

TEST_CASE("of a connection the first input since the last wait counts") {
  ThreadInputs inputs;
  inputs.add(1, {10, 9});
  inputs.waited();
  inputs.add(1, {20, 15});
  inputs.add(2, {21, 16});
  inputs.add(1, {30, 25});
  CHECK(at_of(inputs.first_after(1, 0)) == 20);
  CHECK(at_of(inputs.first_after(1, 20)) == 30);
  CHECK(at_of(inputs.first_after(1, 30)) == -1);
  CHECK(at_of(inputs.first_after(3, 0)) == -1);
  CHECK(inputs.read_after(21, 9) == std::vector<std::uint64_t>{1});
  CHECK(inputs.read_after(20, 9) == std::vector<std::uint64_t>{1, 2});
  CHECK(inputs.read_after(20, 1) == std::vector<std::uint64_t>{1});
  inputs.waited();
  CHECK(at_of(inputs.first_after(1, 0)) == -1);
  inputs.add(1, {40, 35});
  CHECK(at_of(inputs.first_after(1, 0)) == 40);
}

TEST_CASE("what is kept of a thread's inputs is bounded, and the newest are there") {
  ThreadInputs inputs;
  for (Ns i = 1; i <= 5'000; ++i) {
    inputs.add(static_cast<std::uint64_t>(i), {i, i});
    if (i % 3 == 0) inputs.waited();
  }
  CHECK(inputs.read_after(0, 100'000) == std::vector<std::uint64_t>{4'999, 5'000});
  for (std::uint64_t i = 0; i < 5'000; ++i) inputs.add(i, {6'000, 6'000});
  CHECK(inputs.read_after(0, 100'000).size() <= 1'024);
  CHECK(at_of(inputs.first_after(4'999, 0)) == 6'000);
  for (Ns i = 0; i < 1'000; ++i) inputs.add(1, {10'000 + i, {}});
  CHECK(at_of(inputs.first_after(1, 0)) == 10'936);
}

TEST_CASE("a stream is matched with the connection that has news for each of its chunks") {
  std::mt19937 dice(7);
  ThreadInputs inputs;
  InputMatch match;
  Ns now = 100, before = 0;
  int found = 0, right = 0;
  for (int round = 0; round < 100; ++round) {
    inputs.waited();
    const Ns own = now += 1;
    if (dice() % 2) inputs.add(8, {now += 1, now});
    inputs.add(7, {now += 1, own});
    if (dice() % 2) inputs.add(9, {now += 1, now});
    const auto input = match.find(inputs, before);
    found += input.has_value();
    right += input && input->arrival == own;
    match.wrote(inputs, 50, before);
    before = now += 1;
  }
  CHECK(right == found);
  CHECK(right >= 90);
}

TEST_CASE("chunks that become of one input say nothing against it") {
  ThreadInputs inputs;
  InputMatch match;
  for (Ns round = 1; round <= 10; ++round) {
    inputs.waited();
    inputs.add(7, {100 * round, 100 * round});
    CHECK(at_of(match.find(inputs, 100 * round - 10)) == (round == 1 ? -1 : 100 * round));
    for (Ns chunk = 0; chunk < 5; ++chunk) match.wrote(inputs, 50, 100 * round - 10 + 15 * chunk);
  }
}

TEST_CASE(
    "a stream is no input of its own, and two connections that always come together are none") {
  ThreadInputs inputs;
  InputMatch own, both;
  for (Ns round = 1; round <= 10; ++round) {
    inputs.waited();
    inputs.add(7, {100 * round, 1});
    CHECK(at_of(own.find(inputs, 100 * round - 10)) == -1);
    own.wrote(inputs, 7, 100 * round - 10);
    inputs.add(8, {100 * round + 1, 2});
    CHECK(at_of(both.find(inputs, 100 * round - 10)) == -1);
    both.wrote(inputs, 50, 100 * round - 10);
  }
}

}  // namespace
}  // namespace gcause
