// SPDX-License-Identifier: Apache-2.0
//
// Plain connections: chunks and their arrivals, ends, waits, losses. TLS is in
// stream_tracker_tls_test.cpp.
#include "stream/stream_tracker.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cerrno>
#include <string>
#include <vector>

#include "stream_test_support.h"

namespace gcause {
namespace {

using test::event;
using test::framed;
using test::head;
using test::kLastPiece;
using test::kRequest;
using test::Machine;
using test::token;
using Times = std::vector<Ns>;

/// A machine whose socket has just been asked, and answers with a stream.
Machine asked(std::uint32_t sequence = 1'000) {
  Machine m;
  m.seen(sequence);
  m.writes(kRequest, 5);
  m.arrives(head().size(), 8);
  m.reads(head(), 9);
  return m;
}

TEST_CASE("a stream knows its connection and its request") {
  auto m = asked();
  m.reads(token("a"), 20);
  m.reads(token("b") + kLastPiece, 30);
  REQUIRE(m.streams().size() == 1);
  const auto began = m.streams()[0];
  CHECK(began.pid == Machine::kPid);
  CHECK(began.direction == StreamDirection::read);
  CHECK(began.peer == "10.0.0.1:80");
  CHECK(began.host == "api.example");
  CHECK_FALSE(began.tls);
  CHECK(began.protocol == StreamProtocol::http1);
  CHECK(began.begin == 9);
  CHECK(began.request_end == 5);
  REQUIRE(m.chunks().size() == 2);
  CHECK(m.chunks()[0].stream == began.id);
  CHECK(m.chunks()[0].index == 0);
  CHECK(m.chunks()[1].index == 1);
  CHECK(m.chunks()[1].tid == Machine::kTid);
  CHECK(m.chunks()[1].bytes == event("b").size());
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].id == began.id);
  CHECK(m.ends()[0].end == StreamEnd::done);
  CHECK(m.ends()[0].at == 30);
  CHECK(m.ends()[0].bytes == event("a").size() + event("b").size());
}

TEST_CASE("a chunk arrived with the segment that brought its last byte") {
  // The second start makes the sequence numbers wrap inside the stream.
  auto m = asked(GENERATE(1'000u, 0xFFFFFFFFu - 90, 0xFFFFFFFFu - 100));
  m.arrives(token("a").size(), 20);
  m.arrives(token("b").size(), 30);
  m.reads(token("a") + token("b"), 40);
  CHECK(m.arrivals() == Times{20, 30});
  CHECK(m.read_times() == Times{40, 40});
}

TEST_CASE("several chunks in one segment share its arrival") {
  auto m = asked();
  m.arrives(3 * token("a").size(), 20);
  m.reads(token("a") + token("b") + token("c"), 40);
  CHECK(m.arrivals() == Times{20, 20, 20});
}

TEST_CASE("events of one HTTP chunk each have their own arrival") {
  auto m = asked();
  const auto bytes = framed(event("a") + event("b"));
  m.arrives(bytes.size() - 10, 20);
  m.arrives(10, 30);
  m.reads(bytes, 40);
  CHECK(m.arrivals() == Times{20, 30});
}

TEST_CASE("one chunk over many reads is there with the last of them") {
  auto m = asked();
  const auto bytes = token(std::string(50, 'x'));
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    m.arrives(1, static_cast<Ns>(100 + 10 * i));
    m.reads(bytes.substr(i, 1), static_cast<Ns>(105 + 10 * i));
  }
  REQUIRE(m.chunks().size() == 1);
  // The event ends two bytes before the line end of its HTTP chunk.
  CHECK(m.arrivals() == Times{static_cast<Ns>(100 + 10 * (bytes.size() - 3))});
  CHECK(m.read_times() == Times{static_cast<Ns>(105 + 10 * (bytes.size() - 3))});
}

TEST_CASE("a read may take a part of what has arrived") {
  auto m = asked();
  const auto bytes = token("a") + token("b");
  m.arrives(bytes.size() - 5, 20);
  m.arrives(5, 25);
  m.reads(bytes.substr(0, 20), 30);
  m.reads(bytes.substr(20), 40);
  CHECK(m.arrivals() == Times{20, 25});
  CHECK(m.read_times() == Times{30, 40});
}

TEST_CASE("a long read comes in pieces") {
  auto m = asked();
  const std::string bytes = token(std::string(70, 'x')) + token("b") + token("c");
  m.arrives(token(std::string(70, 'x')).size(), 20);
  m.arrives(2 * token("b").size(), 30);
  m.reads_in_pieces(bytes, 32, 40);
  CHECK(m.arrivals() == Times{20, 30, 30});
  CHECK(m.read_times() == Times{40, 40, 40});
  CHECK(m.all<WaitBegan>().empty());
  m.reads(token("d"), 50);
  CHECK(m.chunks().size() == 4);
}

TEST_CASE("bytes from before the socket was seen have no known arrival") {
  Machine m;
  m.reads(head() + token("a"), 10);
  CHECK(m.arrivals() == Times{-1});
}

TEST_CASE("arrivals of sockets that nobody saw are left out") {
  Machine m;
  m.tracker.arrival({5, 999, 1'000});
  CHECK(m.timeline.empty());
}

TEST_CASE("arrivals of one socket say nothing of another") {
  auto m = asked();
  m.socket = 71;
  m.seen();
  m.writes(kRequest, 6);
  m.arrives(head().size() + token("x").size(), 7);
  m.socket = Machine::kSocket;
  m.arrives(token("a").size(), 20);
  m.reads(token("a"), 21);
  m.socket = 71;
  m.reads(head() + token("x"), 30);
  CHECK(m.arrivals() == Times{20, 7});
  CHECK(m.chunks()[0].stream != m.chunks()[1].stream);
}

TEST_CASE("comments, pings and [DONE] are counted, but are no chunks") {
  auto m = asked();
  m.reads(framed(": hi\n\n") + framed("event: ping\ndata: {\"type\": \"ping\"}\n\n"), 20);
  m.reads(token("{\"model\":\"m-1\"}"), 30);
  m.reads(token("[DONE]"), 40);
  m.reads(kLastPiece, 90);
  CHECK(m.chunks().size() == 1);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].comments == 3);
  CHECK(m.ends()[0].model == "m-1");
  CHECK(m.ends()[0].end == StreamEnd::done);
  CHECK(m.ends()[0].at == 40);
}

TEST_CASE("a connection that is kept alive carries one stream after the other") {
  Machine m;
  m.seen();
  for (Ns i = 0; i < 3; ++i) {
    m.writes("GET /" + std::to_string(i) + " HTTP/1.1\r\nHost: h" + std::to_string(i) + "\r\n\r\n",
             100 * i);
    m.reads(head() + token("a"), 100 * i + 10);
    m.reads(token("b") + kLastPiece, 100 * i + 20);
  }
  REQUIRE(m.streams().size() == 3);
  REQUIRE(m.ends().size() == 3);
  REQUIRE(m.chunks().size() == 6);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(m.streams()[i].host == "h" + std::to_string(i));
    CHECK(m.streams()[i].request_end == static_cast<Ns>(100 * i));
    CHECK(m.ends()[i].id == m.streams()[i].id);
    CHECK(m.ends()[i].end == StreamEnd::done);
    CHECK(m.chunks()[2 * i].index == 0);
    CHECK(m.chunks()[2 * i + 1].index == 1);
  }
  CHECK(m.streams()[0].id != m.streams()[1].id);
}

TEST_CASE("a body of known length ends there, and the next response begins") {
  Machine m;
  m.seen();
  m.writes(kRequest, 5);
  const auto body = event("012345678901") + event("x");  // 20 + 9 bytes
  REQUIRE(body.size() == 29);
  m.reads(head("Content-Length: 30") + body + "\n" + head() + token("next") + kLastPiece, 10);
  REQUIRE(m.streams().size() == 2);
  REQUIRE(m.chunks().size() == 3);
  CHECK(m.chunks()[1].stream == m.streams()[0].id);
  CHECK(m.chunks()[2].stream == m.streams()[1].id);
  REQUIRE(m.ends().size() == 2);
  CHECK(m.ends()[0].bytes == 30);
  CHECK(m.ends()[0].end == StreamEnd::done);
}

TEST_CASE("responses that are no event streams give nothing") {
  Machine m;
  m.seen();
  m.writes(kRequest, 5);
  const std::string type = GENERATE("application/json", "text/plain\r\nContent-Encoding: gzip");
  m.reads("HTTP/1.1 200 OK\r\nContent-Type: " + type + "\r\nContent-Length: 9\r\n\r\ndata: a\n\n",
          9);
  CHECK(m.timeline.empty());
  m.writes(kRequest, 15);
  m.reads(head() + token("a"), 20);
  CHECK(m.chunks().size() == 1);
}

TEST_CASE("a body that lasts until the end of the connection ends as eof") {
  Machine m;
  m.seen();
  m.writes(kRequest, 5);
  m.reads(head("Connection: close") + event("a"), 10);
  m.fails(0, 20);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::eof);
  CHECK(m.ends()[0].at == 20);
}

TEST_CASE("a body that the connection's end cuts off is truncated") {
  auto m = asked();
  m.reads(token("a"), 10);
  m.fails(0, 20);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::truncated);
}

TEST_CASE("a read that fails says how the stream ended") {
  const auto [error, end] = GENERATE(table<int, StreamEnd>({
      {ECONNRESET, StreamEnd::reset},
      {EPIPE, StreamEnd::reset},
      {ECONNABORTED, StreamEnd::reset},
      {ETIMEDOUT, StreamEnd::timeout},
      {EBADF, StreamEnd::truncated},
  }));
  auto m = asked();
  m.reads(token("a"), 10);
  m.fails(-error, 20);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == end);
  CHECK(m.ends()[0].at == 20);
}

TEST_CASE("after [DONE] it does not matter how the connection ends") {
  auto m = asked();
  m.reads(token("a") + token("[DONE]"), 10);
  m.fails(-ECONNRESET, 20);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::done);
  CHECK(m.ends()[0].at == 10);
}

TEST_CASE("a socket that was reset may still be read from") {
  auto m = asked();
  m.arrives(token("a").size(), 10);
  m.closed(15, false, ECONNRESET);
  CHECK(m.ends().empty());
  m.reads(token("a"), 20);
  CHECK(m.arrivals() == Times{10});
  m.fails(-ECONNRESET, 30);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::reset);
}

TEST_CASE("a stream that is cut says when the peer closed, not when a read found that") {
  auto m = asked();
  m.reads(token("a"), 10);
  SECTION("by a FIN") {
    m.peer_closes(20);
    m.fails(0, 500);
    CHECK(m.ends().at(0).end == StreamEnd::truncated);
  }
  SECTION("by a reset behind a FIN") {
    m.peer_closes(20);
    m.closed(90, false, ECONNRESET);
    m.fails(-ECONNRESET, 500);
    CHECK(m.ends().at(0).end == StreamEnd::reset);
  }
  SECTION("and the process closes first") {
    m.peer_closes(20);
    m.closed(500, true);
  }
  CHECK(m.ends().at(0).at == 500);
  CHECK(m.ends().at(0).cut == 20);
}

TEST_CASE("a stream that the process closes is cut then, one that is complete is not") {
  auto m = asked();
  m.reads(token("a"), 10);
  SECTION("cut") {
    m.closed(30, true);
    CHECK(m.ends().at(0).cut == 30);
  }
  SECTION("complete") {
    m.reads(kLastPiece, 20);
    m.peer_closes(25);
    m.fails(0, 30);
    CHECK_FALSE(m.ends().at(0).cut);
  }
}

TEST_CASE("a socket that the process closed ends its stream") {
  const auto [error, end] = GENERATE(table<int, StreamEnd>({
      {0, StreamEnd::truncated},
      {ECONNRESET, StreamEnd::reset},
      {ETIMEDOUT, StreamEnd::timeout},
  }));
  auto m = asked();
  m.reads(token("a"), 10);
  m.closed(20, true, error);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == end);
  CHECK(m.ends()[0].at == 20);
}

TEST_CASE("a socket that was closed leaves nothing to one of the same number") {
  auto m = asked();
  m.reads(token("a"), 10);
  m.closed(20, true);
  m.seen(500'000, "10.9.9.9:80");
  m.arrives(head().size() + token("b").size(), 25);
  m.reads(head() + token("b"), 30);
  REQUIRE(m.streams().size() == 2);
  CHECK(m.streams()[1].peer == "10.9.9.9:80");
  CHECK_FALSE(m.streams()[1].host);
  CHECK_FALSE(m.streams()[1].request_end);
  CHECK(m.chunks()[1].index == 0);
  CHECK(m.arrivals() == Times{-1, 25});
}

TEST_CASE("bytes that were read unseen are found by the sequence numbers") {
  auto m = asked();
  m.reads(token("a"), 10);
  m.passes(token("b").size());
  m.reads(token("c"), 30);
  // What is missing may have held anything: what follows is another stream, of which no more is
  // known.
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::truncated);
  CHECK(m.ends()[0].at == 30);
  REQUIRE(m.chunks().size() == 2);
  CHECK(m.chunks()[1].stream != m.chunks()[0].stream);
  CHECK_FALSE(m.streams()[1].host);
  CHECK_FALSE(m.streams()[1].request_end);
  m.writes(kRequest, 40);
  m.reads(head() + token("d"), 50);
  CHECK(m.chunks().size() == 3);
  CHECK(m.streams()[2].host);
}

TEST_CASE("a stream with a length, or up to the end, goes on behind bytes that were read unseen") {
  const bool has_length = GENERATE(true, false);
  Machine m;
  m.seen();
  m.writes(kRequest, 1);
  m.reads(head(has_length ? "Content-Length: 45" : "") + event("a"), 10);
  m.passes(2 * event("b").size());
  m.reads(event("c"), 30);
  CHECK(m.ends().empty());
  m.reads(event("d"), 40);
  // Where the first line behind the missing bytes began is not known, so its event is not taken.
  CHECK(m.chunks().size() == 2);
  CHECK(m.chunks().back().read == 40);
  REQUIRE(m.ends().size() == (has_length ? 1 : 0));
  if (has_length) CHECK(m.ends()[0].end == StreamEnd::done);
}

TEST_CASE("more bytes than are left of a response, read unseen, end its stream") {
  Machine m;
  m.seen();
  m.writes(kRequest, 1);
  m.reads(head("Content-Length: 45") + event("a"), 10);
  m.passes(37);
  m.reads("c\n\n", 30);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::truncated);
  CHECK(m.chunks().size() == 1);
}

TEST_CASE("bytes of a read that could not be copied are passed over inside an HTTP chunk") {
  auto m = asked();
  const auto bytes = token(std::string(300, 'x'));
  m.reads(bytes.substr(0, 50), 10);
  auto io = m.io_at(20, Direction::read, "");
  io.result = 100;
  m.tracker.io(io);
  m.reads(bytes.substr(150) + token("b") + kLastPiece, 30);
  CHECK(m.chunks().size() == 2);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::done);
}

TEST_CASE("after lost records arrivals are unknown up to the next one") {
  auto m = asked();
  m.arrives(token("a").size(), 10);
  m.tracker.records_lost();
  m.reads(token("a"), 20);
  m.arrives(token("b").size(), 30);
  m.reads(token("b"), 35);
  m.arrives(token("c").size(), 40);
  m.reads(token("c"), 45);
  CHECK(m.arrivals() == Times{-1, -1, 40});
}

TEST_CASE("a thread that got a chunk waits when it next blocks") {
  auto m = asked();
  m.waits(11);
  CHECK(m.wait_times().empty());
  m.reads(token("a"), 20);
  m.waits(25);
  m.waits(26);
  CHECK(m.wait_times() == Times{25});
  CHECK(m.all<WaitBegan>()[0].tid == Machine::kTid);
}

TEST_CASE("reads and waits hand on how long their thread had no CPU") {
  auto m = asked();
  m.run_delay = 7;
  m.reads(token("a"), 20);
  m.tracker.wait({25, m.pid, m.tid, true, 9});
  m.run_delay.reset();
  m.reads(token("b"), 30);
  m.waits(35);
  CHECK(m.chunks().at(0).run_delay == 7);
  CHECK_FALSE(m.chunks().at(1).run_delay);
  CHECK(m.all<WaitBegan>().at(0).run_delay == 9);
  CHECK_FALSE(m.all<WaitBegan>().at(1).run_delay);
}

TEST_CASE("sleeps for a lock are handed on where they follow on a chunk") {
  auto m = asked();
  m.tracker.lock_slept({11, 12, m.pid, m.tid});
  m.reads(token("a"), 20);
  m.tracker.lock_slept({21, 30, m.pid, m.tid});
  m.tracker.lock_slept({21, 35, m.pid, m.tid});
  m.waits(40);
  m.tracker.lock_slept({41, 42, m.pid, m.tid});
  m.reads(token("b"), 50);
  m.tracker.lock_slept({45, 55, m.pid, m.tid});  // began before this read
  m.tracker.lock_slept({51, 56, m.pid, m.tid + 1});
  const auto locks = m.all<LockWaited>();
  REQUIRE(locks.size() == 2);
  CHECK(locks[0].begin == 21);
  CHECK(locks[0].end == 30);
  CHECK(locks[1].end == 35);
  CHECK(locks[1].pid == m.pid);
  CHECK(locks[1].tid == m.tid);
}

TEST_CASE("a thread that reads again without blocking has asked for more, too") {
  auto m = asked();
  m.reads(token("a"), 20);
  m.reads(token("b"), 30);
  CHECK(m.wait_times() == Times{30});
  m.reads(framed(": nothing\n\n"), 40);
  CHECK(m.wait_times() == Times{30, 40});
  m.reads(framed(": nothing\n\n"), 50);
  CHECK(m.wait_times() == Times{30, 40});
}

TEST_CASE("a wait comes before the chunk that ended it") {
  auto m = asked();
  m.reads(token("a"), 20);
  m.reads(token("b"), 30);
  const auto& events = m.timeline;
  REQUIRE(events.size() == 4);
  CHECK(std::holds_alternative<WaitBegan>(events[2]));
  CHECK(std::holds_alternative<ChunkRead>(events[3]));
}

TEST_CASE("other threads' waits are their own") {
  auto m = asked();
  m.reads(token("a"), 20);
  m.tid = 11;
  m.waits(25);
  CHECK(m.wait_times().empty());
  m.reads(token("b"), 30);
  CHECK(m.wait_times().empty());
  m.tid = Machine::kTid;
  m.waits(40);
  CHECK(m.wait_times() == Times{40});
}

TEST_CASE("the same thread number in another process is another thread") {
  auto m = asked();
  m.reads(token("a"), 20);
  m.pid = 2;
  m.waits(25);
  CHECK(m.wait_times().empty());
}

TEST_CASE("a process that ends ends its streams, and no others") {
  auto m = asked();
  m.reads(token("a"), 20);
  m.pid = 2;
  m.socket = 71;
  m.seen();
  m.reads(head() + token("x"), 25);
  m.tracker.process_ended(Machine::kPid, 30);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].pid == Machine::kPid);
  CHECK(m.ends()[0].at == 30);
  CHECK(m.ends()[0].end == StreamEnd::truncated);
  m.reads(token("y"), 40);
  CHECK(m.chunks().back().pid == 2);
}

TEST_CASE("streams that are in progress when the recording ends are open") {
  auto m = asked();
  m.reads(token("a"), 20);
  m.tracker.finish(30);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::open);
  CHECK(m.ends()[0].at == 30);
}

}  // namespace
}  // namespace gcause
