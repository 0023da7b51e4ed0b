// SPDX-License-Identifier: Apache-2.0
//
// Which chunk that was read a written one passes on: by the data, or else by time.
#include "stream/gateway_links.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <optional>
#include <random>
#include <string>
#include <vector>

#include "stream_test_support.h"

namespace gcause {
namespace {

using test::head;
using test::kLastPiece;
using test::kRequest;
using test::Machine;
using test::token;

using Places = std::vector<std::optional<ChunkPlace>>;

/// A gateway: number `n` serves a client at socket 100 + n and asks for more at socket 200 + n.
class Gateway : public Machine {
 public:
  void at_client(std::uint64_t n) { socket = 100 + n; }
  void at_source(std::uint64_t n) { socket = 200 + n; }

  /// A client asks, and the gateway asks its source; both streams begin.
  void begins(std::uint64_t n, Ns at) {
    asks(n, at);
    answers(n, at + 2);
  }
  void asks(std::uint64_t n, Ns at) {
    at_client(n);
    seen();
    reads(kRequest, at);
    at_source(n);
    seen();
    writes(kRequest, at + 1);
  }
  void answers(std::uint64_t n, Ns at) {
    at_source(n);
    arrives(head().size(), at);
    reads(head(), at);
    at_client(n);
    writes(head(), at);
  }
  void takes(std::uint64_t n, const std::string& data, Ns at, std::optional<Ns> arrival = {}) {
    at_source(n);
    arrives(token(data).size(), arrival.value_or(at));
    reads(token(data), at);
  }
  void gives(std::uint64_t n, const std::string& data, Ns at) {
    at_client(n);
    writes(token(data), at);
  }

  std::uint64_t stream_of(std::uint64_t n, StreamDirection direction) const {
    std::uint64_t count = 0;
    for (const auto& stream : streams()) {
      if (stream.direction == direction && count++ == n) return stream.id;
    }
    FAIL("there is no such stream");
    return 0;
  }

  /// Of the chunks that client `n` was given, by the number of their source: "0.3", or "-".
  std::vector<std::string> sources_of(std::uint64_t n) const {
    std::vector<std::string> sources;
    const auto id = stream_of(n, StreamDirection::write);
    for (const auto& chunk : chunks()) {
      if (chunk.stream != id) continue;
      sources.push_back(chunk.source ? name_of(*chunk.source) : "-");
    }
    return sources;
  }

 private:
  std::string name_of(const ChunkPlace& place) const {
    std::uint64_t number = 0;
    for (const auto& stream : streams()) {
      if (stream.direction != StreamDirection::read) continue;
      if (stream.id == place.stream) break;
      ++number;
    }
    return std::to_string(number) + "." + std::to_string(place.index);
  }
};

using Sources = std::vector<std::string>;

TEST_CASE("a chunk that is passed on as it came names its source, and came when that did") {
  Gateway g;
  g.begins(0, 1);
  g.takes(0, "a", 20, 15);
  g.gives(0, "a", 25);
  g.takes(0, "b", 40, 35);
  g.gives(0, "b", 45);
  CHECK(g.sources_of(0) == Sources{"0.0", "0.1"});
  CHECK(g.chunks()[1].arrival == 15);
  CHECK(g.chunks()[3].arrival == 35);
  CHECK_FALSE(g.chunks()[0].source);
}

TEST_CASE("a changed chunk is what the thread has read since the one before") {
  Gateway g;
  g.begins(0, 1);
  g.takes(0, "a", 20);
  g.gives(0, "A", 25);
  g.gives(0, "made up", 30);
  g.takes(0, "b", 40);
  g.gives(0, "B", 45);
  CHECK(g.sources_of(0) == Sources{"0.0", "-", "0.1"});
}

TEST_CASE("another thread's chunk is a source only where the data say so") {
  Gateway g;
  g.begins(0, 1);
  g.tid = 11;
  g.takes(0, "a", 20, 18);
  g.takes(0, "b", 30);
  g.tid = Machine::kTid;
  const bool same = GENERATE(true, false);
  g.gives(0, same ? "a" : "A", 35);
  g.gives(0, same ? "b" : "B", 40);
  CHECK(g.sources_of(0) == (same ? Sources{"0.0", "0.1"} : Sources{"-", "-"}));
  if (same) CHECK(g.chunks()[2].arrival == 18);
}

TEST_CASE("chunks of one read are passed on one by one, in order") {
  const bool same = GENERATE(true, false);
  Gateway g;
  g.begins(0, 1);
  g.at_source(0);
  g.reads(token("a") + token("b") + token("c"), 20);
  const Sources data = same ? Sources{"a", "b", "c"} : Sources{"A", "B", "C"};
  for (std::size_t i = 0; i < 3; ++i) g.gives(0, data[i], static_cast<Ns>(30 + i));
  CHECK(g.sources_of(0) == Sources{"0.0", "0.1", "0.2"});
}

TEST_CASE("chunks of one run are passed on one by one, in order, though read one by one") {
  Gateway g;
  g.begins(0, 1);
  for (Ns i = 0; i < 100; ++i) g.takes(0, "x" + std::to_string(i), 20 + i);
  const bool same = GENERATE(true, false);
  for (Ns i = 0; i < 100; ++i) g.gives(0, (same ? "x" : "X") + std::to_string(i), 200 + i);
  const auto sources = g.sources_of(0);
  REQUIRE(sources.size() == 100);
  for (std::size_t i = 0; i < 100; ++i) CHECK(sources[i] == "0." + std::to_string(i));
}

TEST_CASE("of chunks that are put together the newest read counts, and nothing lags behind") {
  Gateway g;
  g.begins(0, 1);
  for (Ns i = 0; i < 5; ++i) {
    g.takes(0, "x" + std::to_string(i), 100 * i + 20);
    g.waits(100 * i + 25);
    g.takes(0, "y" + std::to_string(i), 100 * i + 30);
    g.gives(0, "xy" + std::to_string(i), 100 * i + 40);
  }
  CHECK(g.sources_of(0) == Sources{"0.1", "0.3", "0.5", "0.7", "0.9"});
}

TEST_CASE("chunks that became of one in one write share it") {
  Gateway g;
  g.begins(0, 1);
  g.takes(0, "ab", 20);
  g.at_client(0);
  g.writes(token("A") + token("B"), 25);
  g.gives(0, "C", 30);
  CHECK(g.sources_of(0) == Sources{"0.0", "0.0", "-"});
}

TEST_CASE("the last chunk is passed on behind the end of its stream") {
  Gateway g;
  g.begins(0, 1);
  g.takes(0, "a", 20);
  g.at_source(0);
  g.reads(kLastPiece, 21);
  g.gives(0, "a", 25);
  CHECK(g.sources_of(0) == Sources{"0.0"});
}

TEST_CASE("what was read for somebody else before is no source") {
  Gateway g;
  g.begins(0, 1);
  g.takes(0, "hello", 20);
  g.gives(0, "hello", 21);
  g.asks(1, 30);
  g.answers(1, 40);
  g.gives(1, "hello", 50);
  g.takes(1, "hello", 60);
  g.gives(1, "hello", 61);
  CHECK(g.sources_of(0) == Sources{"0.0"});
  CHECK(g.sources_of(1) == Sources{"-", "1.0"});
}

TEST_CASE("one stream may be passed on to several clients") {
  Gateway g;
  g.begins(0, 1);
  g.at_client(1);
  g.seen();
  g.reads(kRequest, 5);
  g.writes(head(), 6);
  for (Ns i = 0; i < 3; ++i) {
    const auto data = "x" + std::to_string(i);
    g.takes(0, data, 100 * i + 20);
    g.gives(0, data, 100 * i + 30);
    g.gives(1, data, 100 * i + 31);
  }
  CHECK(g.sources_of(0) == Sources{"0.0", "0.1", "0.2"});
  CHECK(g.sources_of(1) == Sources{"0.0", "0.1", "0.2"});
}

TEST_CASE("a process that serves nobody has no links") {
  Machine m;
  m.writes(kRequest, 5);
  m.reads(head() + token("a"), 10);
  REQUIRE(m.chunks().size() == 1);
  CHECK_FALSE(m.chunks()[0].source);
}

TEST_CASE("streams of another process are no source") {
  Gateway g;
  g.begins(0, 1);
  g.pid = 2;
  g.socket = 300;
  g.seen();
  g.writes(kRequest, 10);
  g.reads(head() + token("a"), 20);
  g.pid = Machine::kPid;
  g.gives(0, "a", 25);
  CHECK(g.chunks().back().source == std::nullopt);
}

/// Twenty streams pass through one thread; `same`: all carry the same data, which are passed on as
/// they are; otherwise the data are changed. Their chunks come at random, and now and then in
/// bursts, as behind a pause: many are read before any is written.
void check_many(std::uint32_t seed, bool change, bool distinct) {
  CAPTURE(seed, change, distinct);
  std::mt19937 dice(seed);
  const auto chance = [&](unsigned percent) { return dice() % 100 < percent; };
  constexpr std::uint64_t kStreams = 20;
  constexpr std::size_t kChunks = 60;
  Gateway g;
  Ns now = 1;
  for (std::uint64_t n = 0; n < kStreams; ++n) g.begins(n, now += 5);
  std::vector<std::size_t> taken(kStreams);
  std::vector<std::uint64_t> queue;
  const auto text = [&](std::uint64_t n, std::size_t index) {
    return (distinct ? "of " + std::to_string(n) + " " : "") + std::to_string(index);
  };
  std::vector<std::size_t> given(kStreams);
  const auto give_all = [&] {
    for (const auto n : queue) g.gives(n, (change ? "new " : "") + text(n, given[n]++), now += 1);
    queue.clear();
  };
  std::size_t all = 0;
  while (all < kStreams * kChunks) {
    const auto n = dice() % kStreams;
    if (taken[n] == kChunks) continue;
    g.takes(n, text(n, taken[n]++), now += 1);
    queue.push_back(n);
    ++all;
    if (chance(all % 200 < 180 ? 20 : 95)) continue;
    give_all();
    g.waits(now += 1);
  }
  give_all();
  std::size_t right = 0, wrong = 0;
  for (std::uint64_t n = 0; n < kStreams; ++n) {
    const auto sources = g.sources_of(n);
    REQUIRE(sources.size() == kChunks);
    for (std::size_t i = 0; i < kChunks; ++i) {
      const bool is_right = sources[i] == std::to_string(n) + "." + std::to_string(i);
      right += is_right;
      wrong += !is_right && sources[i] != "-";
    }
  }
  CAPTURE(right, wrong);
  if (distinct && !change) {
    CHECK(right == all);
  } else if (!change) {
    CHECK(right * 100 >= all * 99);
  } else {
    CHECK(right * 100 >= all * 97);
    CHECK(wrong * 100 <= all * 1);
  }
}

TEST_CASE("each of many streams through one thread has its own source") {
  const auto seed = GENERATE(range(1u, 6u));
  check_many(seed, false, true);
  check_many(seed, false, false);
  check_many(seed, true, true);
}

TEST_CASE("what is kept of streams that were read is bounded") {
  Gateway g;
  g.begins(0, 1);
  for (std::uint64_t n = 1; n < 300; ++n) {
    g.at_source(n);
    g.seen();
    g.writes(kRequest, static_cast<Ns>(10 * n));
    g.reads(head() + token("only " + std::to_string(n)) + kLastPiece, static_cast<Ns>(10 * n + 1));
  }
  g.tid = 11;
  g.gives(0, "only 5", 5'000);
  g.gives(0, "only 299", 5'010);
  CHECK(g.sources_of(0) == Sources{"-", "299.0"});
}

}  // namespace
}  // namespace gcause
