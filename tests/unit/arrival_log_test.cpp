// SPDX-License-Identifier: Apache-2.0
#include "stream/arrival_log.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

namespace gcause {
namespace {

constexpr std::optional<Ns> kUnknown;

TEST_CASE("sequence numbers are compared modulo 2^32") {
  CHECK(sequence_before(1, 2));
  CHECK_FALSE(sequence_before(2, 1));
  CHECK_FALSE(sequence_before(5, 5));
  CHECK(sequence_before(0xFFFFFFFFu, 0));
  CHECK(sequence_before(0xFFFFFF00u, 0x100));
  CHECK_FALSE(sequence_before(0x100, 0xFFFFFF00u));
  CHECK(sequence_before(0, 0x7FFFFFFFu));
}

TEST_CASE("a byte arrived with the first growth of the queue that reaches it") {
  // The second start makes the numbers wrap between the arrivals.
  const std::uint32_t start = GENERATE(1'000u, 0xFFFFFFFFu - 150, 0xFFFFFFFFu - 100, 0x7FFFFFFFu);
  CAPTURE(start);
  ArrivalLog log;
  log.begin(start);
  log.add(start + 100, 10);
  log.add(start + 200, 20);
  log.add(start + 201, 30);
  CHECK(log.at(start + 1) == 10);
  CHECK(log.at(start + 100) == 10);
  CHECK(log.at(start + 101) == 20);
  CHECK(log.at(start + 200) == 20);
  CHECK(log.at(start + 201) == 30);
}

TEST_CASE("nothing is known of bytes from before the beginning, or that have not arrived") {
  ArrivalLog log;
  log.begin(1'000);
  log.add(1'100, 10);
  CHECK(log.at(1'000) == kUnknown);
  CHECK(log.at(900) == kUnknown);
  CHECK(log.at(1'101) == kUnknown);
}

TEST_CASE("without a beginning the first arrival tells only where to count from") {
  ArrivalLog log;
  log.add(1'000, 10);
  CHECK(log.at(1'000) == kUnknown);
  log.add(1'050, 20);
  CHECK(log.at(1'000) == kUnknown);
  CHECK(log.at(1'001) == 20);
  CHECK(log.at(1'050) == 20);
}

TEST_CASE("bytes that arrived together are told apart from those behind them") {
  const std::uint32_t start = GENERATE(1'000u, 0xFFFFFFFFu - 150, 0xFFFFFFFFu - 100);
  CAPTURE(start);
  ArrivalLog log;
  CHECK_FALSE(log.run_end(start));
  log.begin(start);
  CHECK_FALSE(log.run_end(start));
  log.add(start + 100, 10);
  log.add(start + 200, 20);
  CHECK(log.run_end(start - 5) == start);
  CHECK(log.run_end(start) == start + 100);
  CHECK(log.run_end(start + 99) == start + 100);
  CHECK(log.run_end(start + 100) == start + 200);
  CHECK_FALSE(log.run_end(start + 200));

  const PieceArrival piece{&log, start + 50, {}};
  CHECK(piece.run_end(0, 500) == 50);
  CHECK(piece.run_end(0, 20) == 20);
  CHECK(piece.run_end(50, 500) == 150);
  CHECK(piece.run_end(150, 500) == 500);
  CHECK(PieceArrival{nullptr, 0, 7}.run_end(3, 500) == 500);
}

TEST_CASE("a repeated or older number changes nothing") {
  ArrivalLog log;
  log.begin(0);
  log.add(100, 10);
  log.add(100, 20);
  log.add(50, 30);
  CHECK(log.at(100) == 10);
  CHECK(log.at(50) == 10);
  CHECK(log.size() == 1);
}

TEST_CASE("what was read is dropped, and what was read in part is kept") {
  ArrivalLog log;
  log.begin(0);
  log.add(100, 10);
  log.add(200, 20);
  log.add(300, 30);
  log.consumed(150);
  CHECK(log.size() == 2);
  CHECK(log.at(200) == 20);
  CHECK(log.at(160) == 20);
  log.consumed(300);
  CHECK(log.size() == 0);
  CHECK(log.at(300) == kUnknown);
  log.add(400, 40);
  CHECK(log.at(301) == 40);
}

TEST_CASE("after a loss nothing is known up to the next arrival") {
  ArrivalLog log;
  log.begin(0);
  log.add(100, 10);
  log.forget();
  CHECK(log.at(100) == kUnknown);
  log.add(200, 20);
  CHECK(log.at(150) == kUnknown);
  CHECK(log.at(200) == kUnknown);
  log.add(300, 30);
  CHECK(log.at(300) == 30);
}

TEST_CASE("a new beginning forgets the old connection") {
  ArrivalLog log;
  log.begin(0);
  log.add(100, 10);
  log.begin(50);
  CHECK(log.at(100) == kUnknown);
  CHECK(log.size() == 0);
}

TEST_CASE("a program that never reads does not make the log grow without end") {
  ArrivalLog log;
  log.begin(0);
  for (std::uint32_t i = 1; i <= 200'000; ++i) log.add(i, i);
  CHECK(log.size() <= 65'536);
  CHECK(log.at(200'000) == 200'000);
  CHECK(log.at(1) == kUnknown);
}

TEST_CASE("a piece of a read asks by sequence number, or knows one time for all") {
  ArrivalLog log;
  log.begin(0xFFFFFFF0u);
  log.add(0xFFFFFFF8u, 10);
  log.add(0x8, 20);
  const PieceArrival piece{&log, 0xFFFFFFF0u, 99};
  CHECK(piece.at(8) == 10);
  CHECK(piece.at(9) == 20);
  CHECK(piece.at(24) == 20);
  CHECK(piece.at(25) == kUnknown);
  CHECK(PieceArrival{nullptr, 0, 99}.at(5) == 99);
  CHECK(PieceArrival{}.at(5) == kUnknown);
}

}  // namespace
}  // namespace gcause
