// SPDX-License-Identifier: Apache-2.0
#include "util/queue.h"

#include <catch2/catch_test_macros.hpp>
#include <deque>
#include <memory>
#include <random>

using gcause::Queue;

TEST_CASE("a queue is what std::deque is, whatever is done to it") {
  std::mt19937 random(1);
  for (const unsigned pops : {1U, 3U, 6U}) {  // of ten steps
    Queue<std::shared_ptr<int>> queue;
    std::deque<std::shared_ptr<int>> truth;
    for (int step = 0; step < 3000; ++step) {
      const auto chosen = random() % 10;
      if (chosen >= pops) {
        truth.push_back(std::make_shared<int>(step));
        queue.push_back(truth.back());
      } else if (!truth.empty()) {
        truth.pop_front();
        queue.pop_front();
      }
      if (random() % 1000 == 0) {
        truth.clear();
        queue.clear();
      }
      REQUIRE(queue.size() == truth.size());
      REQUIRE(queue.empty() == truth.empty());
      if (truth.empty()) continue;
      const auto index = random() % truth.size();
      REQUIRE(queue.front() == truth.front());
      REQUIRE(queue.back() == truth.back());
      REQUIRE(queue[index] == truth[index]);
    }
    REQUIRE(std::equal(queue.begin(), queue.end(), truth.begin(), truth.end()));
    // What was popped is not held on to.
    for (const auto& each : truth) REQUIRE(each.use_count() == 2);
  }
}
