// SPDX-License-Identifier: Apache-2.0
#include "attribution/backlog.h"

#include <catch2/catch_test_macros.hpp>

namespace gcause {
namespace {

TEST_CASE("a chunk that no pause held back was delivered when it was") {
  Backlog backlog;
  CHECK(backlog.but_for({100, 103, 0, 0}) == 103);
  CHECK(backlog.but_for({102, 110, 0, 0}) == 110);  // queued, but behind no pause
}

TEST_CASE("chunks that came in a pause count at their arrivals, however long the queue takes") {
  Backlog backlog;
  backlog.but_for({0, 1, 0, 0});
  // A pause from 10 to 500; each chunk is worth 7 of work.
  CHECK(backlog.but_for({100, 500, 400, 490}) == 100);
  CHECK(backlog.but_for({200, 507, 300, 0}) == 200);
  CHECK(backlog.but_for({300, 514, 200, 0}) == 300);
  CHECK(backlog.but_for({505, 521, 0, 0}) == 505);  // while the thread was catching up
  CHECK(backlog.but_for({530, 532, 0, 0}) == 532);  // it had caught up
  CHECK(backlog.but_for({531, 540, 0, 0}) == 540);
}

TEST_CASE("a chunk waits for the work on those that came before it, with or without the pause") {
  Backlog backlog;
  backlog.but_for({0, 1, 0, 0});
  CHECK(backlog.but_for({100, 500, 400, 490}) == 100);
  CHECK(backlog.but_for({150, 580, 350, 0}) == 180);  // 80 of work on the one before
  CHECK(backlog.but_for({170, 590, 330, 0}) == 190);  // and 10 on that
}

TEST_CASE("streams that are worked off one behind the other do not wait for each other's last") {
  Backlog backlog;
  backlog.but_for({0, 1, 0, 0});
  CHECK(backlog.but_for({100, 500, 400, 490}) == 100);
  CHECK(backlog.but_for({490, 500, 10, 0}) == 490);  // by the same read
  CHECK(backlog.but_for({101, 510, 399, 0}) == 101);
  CHECK(backlog.but_for({495, 510, 5, 0}) == 500);  // 10 of work on the one that came at 490
}

TEST_CASE("a chunk is never later without the pauses than with them") {
  Backlog backlog;
  backlog.but_for({0, 1, 0, 0});
  backlog.but_for({100, 500, 400, 490});
  CHECK(backlog.but_for({101, 502, 399, 0}) == 102);
}

TEST_CASE("pauses inside of the queue's work are no work") {
  Backlog backlog;
  backlog.but_for({0, 1, 0, 0});
  backlog.but_for({100, 500, 400, 490});
  CHECK(backlog.but_for({150, 560, 400, 50}) == 150);
  CHECK(backlog.but_for({155, 570, 395, 0}) == 160);
}

TEST_CASE("what is not known begins anew") {
  Backlog backlog;
  backlog.but_for({100, 500, 400, 490});
  backlog.forget();
  CHECK(backlog.but_for({200, 507, 0, 0}) == 507);
}

}  // namespace
}  // namespace gcause
