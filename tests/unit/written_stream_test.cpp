// SPDX-License-Identifier: Apache-2.0
//
// Streams that the process serves: requests are read, responses are written. What becomes of a
// chunk that is read and written again is in gateway_links_test.cpp.
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <cerrno>
#include <string>
#include <utility>
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
using test::sealed;
using test::token;
using Times = std::vector<Ns>;

std::string get(const std::string& host, const std::string& method = "GET") {
  return method + " / HTTP/1.1\r\nHost: " + host + "\r\n\r\n";
}

/// A machine that has just read a request and written the head of its answer.
Machine serving() {
  Machine m;
  m.seen();
  m.arrives(kRequest.size(), 4);
  m.reads(kRequest, 5);
  m.writes(head(), 9);
  return m;
}

TEST_CASE("a stream that is written knows its connection and its request") {
  auto m = serving();
  m.writes(token("a"), 20);
  m.tid = 11;
  m.writes(token("b") + kLastPiece, 30);
  REQUIRE(m.streams().size() == 1);
  const auto began = m.streams()[0];
  CHECK(began.pid == Machine::kPid);
  CHECK(began.direction == StreamDirection::write);
  CHECK(began.peer == "10.0.0.1:80");
  CHECK(began.host == "api.example");
  CHECK_FALSE(began.tls);
  CHECK(began.protocol == StreamProtocol::http1);
  CHECK(began.begin == 9);
  CHECK(began.request_end == 4);
  CHECK(m.read_times() == Times{20, 30});
  CHECK(m.chunks()[0].tid == Machine::kTid);
  CHECK(m.chunks()[1].tid == 11);
  CHECK(m.chunks()[1].index == 1);
  CHECK(m.chunks()[1].bytes == event("b").size());
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::done);
  CHECK(m.ends()[0].at == 30);
  CHECK(m.ends()[0].bytes == event("a").size() + event("b").size());
}

TEST_CASE("a chunk is written with the write that takes its last byte, wherever writes are cut") {
  const auto bytes = head() + token("a") + token("b") + kLastPiece;
  const auto end_of = [&](const std::string& data) {
    return bytes.find(event(data)) + event(data).size();
  };
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    INFO("cut at " << cut);
    Machine m;
    m.seen();
    m.reads(kRequest, 5);
    m.writes(bytes.substr(0, cut), 10);
    m.writes(bytes.substr(cut), 20);
    CHECK(m.read_times() == Times{cut < end_of("a") ? 20 : 10, cut < end_of("b") ? 20 : 10});
    REQUIRE(m.ends().size() == 1);
    CHECK(m.ends()[0].end == StreamEnd::done);
  }
}

TEST_CASE("writes of one byte each, and one write in many records, are the same stream") {
  const auto bytes = head() + token("a") + token("b") + kLastPiece;
  Machine bytewise;
  bytewise.reads(kRequest, 5);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytewise.writes(bytes.substr(i, 1), static_cast<Ns>(10 + i));
  }
  Machine pieces;
  pieces.reads(kRequest, 5);
  pieces.writes_in_pieces(bytes, 7, 40);
  for (const auto* m : {&bytewise, &pieces}) {
    REQUIRE(m->chunks().size() == 2);
    CHECK(m->chunks()[0].bytes == event("a").size());
    REQUIRE(m->ends().size() == 1);
    CHECK(m->ends()[0].end == StreamEnd::done);
  }
  CHECK(pieces.read_times() == Times{40, 40});
}

TEST_CASE("bytes of a write that could not be copied are passed over inside an HTTP chunk") {
  auto m = serving();
  const auto bytes = token(std::string(300, 'x'));
  m.writes_uncopied(bytes.substr(0, 50), 100, 10);
  m.writes(bytes.substr(150) + token("b") + kLastPiece, 20);
  CHECK(m.read_times() == Times{20, 20});
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::done);
}

TEST_CASE("a request ends with the last byte of its body") {
  Machine m;
  m.seen();
  const std::string body(100, 'b');
  const auto request = "POST / HTTP/1.1\r\nHost: h\r\nContent-Length: 100\r\n\r\n" + body;
  m.arrives(60, 10);
  m.arrives(request.size() - 60, 20);
  m.reads(request.substr(0, 70), 30);
  m.reads(request.substr(70), 40);
  m.writes(head() + token("a"), 50);
  REQUIRE(m.streams().size() == 1);
  CHECK(m.streams()[0].request_end == 20);
  CHECK(m.streams()[0].host == "h");
}

TEST_CASE(
    "without a known arrival, and in a body without a length, the last read ends the request") {
  Machine m;
  m.reads("POST / HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n", 10);
  m.reads("5\r\nhello\r\n", 20);
  m.reads("0\r\n\r\n", 30);
  m.writes(head() + token("a"), 50);
  REQUIRE(m.streams().size() == 1);
  CHECK(m.streams()[0].request_end == 30);
  CHECK_FALSE(m.streams()[0].host);
}

TEST_CASE("a server's connection that is kept alive carries one stream after the other") {
  Machine m;
  m.seen();
  for (Ns i = 0; i < 3; ++i) {
    m.reads(get("h" + std::to_string(i)), 100 * i);
    m.writes(head() + token("a"), 100 * i + 10);
    m.writes(token("b") + kLastPiece, 100 * i + 20);
  }
  REQUIRE(m.streams().size() == 3);
  REQUIRE(m.ends().size() == 3);
  CHECK(m.chunks().size() == 6);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(m.streams()[i].host == "h" + std::to_string(i));
    CHECK(m.streams()[i].request_end == static_cast<Ns>(100 * i));
    CHECK(m.ends()[i].end == StreamEnd::done);
  }
}

TEST_CASE("requests that come together are answered in their order") {
  Machine m;
  m.seen();
  const auto all =
      get("one") + get("two", "HEAD") + get("three") +
      "POST / HTTP/1.1\r\nHost: four\r\nContent-Length: 20\r\n\r\nGET / HTTP/1.1\r\n\r\n..";
  m.arrives(get("one").size(), 1);
  m.arrives(all.size() - get("one").size(), 2);
  m.reads(all, 5);
  m.writes(head() + token("a") + kLastPiece + head(), 10);
  m.writes(head("Content-Length: 11") + event("abc") + head() + token("d") + kLastPiece, 20);
  REQUIRE(m.streams().size() == 3);
  CHECK(m.streams()[0].host == "one");
  CHECK(m.streams()[0].request_end == 1);
  CHECK(m.streams()[1].host == "three");
  CHECK(m.streams()[2].host == "four");
  CHECK(m.streams()[2].request_end == 2);
  CHECK(m.ends().size() == 3);
  CHECK(m.chunks().size() == 3);
}

TEST_CASE("a second request that comes during the answer to the first does not disturb it") {
  auto m = serving();
  m.writes(token("a"), 10);
  m.reads(get("next"), 15);
  m.writes(token("b") + kLastPiece, 20);
  m.writes(head() + token("c"), 30);
  REQUIRE(m.streams().size() == 2);
  CHECK(m.streams()[1].host == "next");
  CHECK(m.streams()[1].request_end == 15);
  CHECK(m.chunks().size() == 3);
}

TEST_CASE("the answer to a HEAD is no stream, of a server as of a client") {
  Machine server;
  server.reads(get("h", "HEAD"), 5);
  server.writes(head(), 10);
  server.reads(get("h"), 15);
  server.writes(head() + token("a"), 20);
  REQUIRE(server.streams().size() == 1);
  CHECK(server.streams()[0].begin == 20);
  Machine client;
  client.writes(get("h", "HEAD"), 5);
  client.reads(head(), 10);
  client.writes(get("h"), 15);
  client.reads(head() + token("a"), 20);
  REQUIRE(client.streams().size() == 1);
  CHECK(client.streams()[0].begin == 20);
}

TEST_CASE("a file that was not copied does not hide the stream behind it") {
  Machine m;
  m.seen();
  m.reads(get("h"), 5);
  const bool has_length = GENERATE(true, false);
  m.writes("HTTP/1.1 200 OK\r\nContent-Type: application/zip\r\n" +
               std::string(has_length ? "Content-Length: 5000" : "Transfer-Encoding: chunked") +
               "\r\n\r\n",
           10);
  m.writes_uncopied("", 4000, 11);
  m.writes_uncopied("", 1000, 12);
  CHECK(m.timeline.empty());
  m.reads(get("i"), 15);
  m.writes(head() + token("a"), 20);
  REQUIRE(m.streams().size() == 1);
  CHECK(m.streams()[0].host == "i");
  CHECK(m.chunks().size() == 1);
}

TEST_CASE(
    "a server that was attached to in the middle of a stream is read from its next event on") {
  Machine m;
  m.writes("tail of something", 5);
  m.writes(token("{\"choices\":[{\"delta\":{\"content\":\"a\"}}]}"), 10);
  m.writes(token("{\"choices\":[{\"delta\":{\"content\":\"b\"}}]}"), 20);
  REQUIRE(m.streams().size() == 1);
  CHECK(m.streams()[0].direction == StreamDirection::write);
  CHECK_FALSE(m.streams()[0].request_end);
  CHECK(m.read_times() == Times{10, 20});
  m.reads(get("h"), 25);
  m.writes(kLastPiece, 30);
  m.writes(head() + token("c"), 40);
  REQUIRE(m.streams().size() == 2);
  CHECK(m.streams()[1].host == "h");
}

TEST_CASE("who is the server is found out again where it was taken for the other") {
  Machine m;
  m.reads("GET / HTTP/1.1\r\n", 5);  // in the middle of a body, for all that is known
  m.reads("and more of it", 6);
  m.writes(kRequest, 10);
  m.reads(head() + token("a"), 20);
  REQUIRE(m.streams().size() == 1);
  CHECK(m.streams()[0].direction == StreamDirection::read);
  CHECK(m.streams()[0].request_end == 10);
}

TEST_CASE("a request inside of a body that is read is a part of that body") {
  Machine m;
  m.writes(kRequest, 5);
  m.reads(head(), 10);
  m.reads("2f\r\n", 11);
  m.reads("GET / HTTP/1.1\r\n", 12);
  m.reads("\r\ndata: a\n\n", 13);
  CHECK(m.streams().size() == 1);
  CHECK(m.streams()[0].direction == StreamDirection::read);
}

TEST_CASE("a client that has asked for all may close its side") {
  auto m = serving();
  m.writes(token("a"), 10);
  m.fails(0, 15);
  CHECK(m.ends().empty());
  m.writes(token("b") + kLastPiece, 20);
  CHECK(m.chunks().size() == 2);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::done);
}

TEST_CASE("a client that is gone ends the stream") {
  auto m = serving();
  m.writes(token("a"), 10);
  SECTION("as a write finds") {
    const auto [error, end] = GENERATE(table<int, StreamEnd>({{EPIPE, StreamEnd::reset},
                                                              {ECONNRESET, StreamEnd::reset},
                                                              {ETIMEDOUT, StreamEnd::timeout}}));
    m.write_fails(error, 20);
    REQUIRE(m.ends().size() == 1);
    CHECK(m.ends()[0].end == end);
  }
  SECTION("as a read finds") {
    m.fails(-ECONNRESET, 20);
    REQUIRE(m.ends().size() == 1);
    CHECK(m.ends()[0].end == StreamEnd::reset);
  }
  SECTION("as the socket says") {
    m.closed(20, false, ECONNRESET);
    REQUIRE(m.ends().size() == 1);
    CHECK(m.ends()[0].end == StreamEnd::reset);
    m.write_fails(EPIPE, 25);
    CHECK(m.ends().size() == 1);
  }
  SECTION("as the server has closed the socket") {
    m.closed(20, true);
    REQUIRE(m.ends().size() == 1);
    CHECK(m.ends()[0].end == StreamEnd::truncated);
  }
  CHECK(m.ends()[0].at == 20);
}

TEST_CASE("a client's stream goes on where its write fails: it may still read") {
  Machine m;
  m.seen();
  m.writes(kRequest, 5);
  m.reads(head() + token("a"), 10);
  m.write_fails(EPIPE, 15);
  CHECK(m.ends().empty());
  m.reads(token("b"), 20);
  CHECK(m.chunks().size() == 2);
}

TEST_CASE("a body that lasts until the server closes ends as eof") {
  Machine m;
  m.seen();
  m.reads(kRequest, 5);
  m.writes(head("Connection: close") + event("a"), 10);
  m.closed(20, true);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::eof);
}

TEST_CASE("streams that are written when the recording ends are open") {
  auto m = serving();
  m.writes(token("a"), 10);
  m.tracker.finish(30);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::open);
}

// ---- TLS.

TEST_CASE("a TLS server writes its plaintext to the library, and ciphertext is no stream") {
  const bool library_writes = GENERATE(true, false);
  Machine m;
  m.seen();
  if (library_writes) {
    m.library_reads(sealed(kRequest).size(), 3);
  } else {
    m.reads(sealed(kRequest), 3);
  }
  m.tls_reads(kRequest, 2, 5);
  m.tls_writes(head(), 9);
  if (!library_writes) m.writes(sealed(head()), 10);
  m.tls_writes(token("a") + token("b"), 20);
  if (!library_writes) m.writes(sealed(token("a") + token("b")), 21);
  m.tls_writes(kLastPiece, 30);
  REQUIRE(m.streams().size() == 1);
  CHECK(m.streams()[0].direction == StreamDirection::write);
  CHECK(m.streams()[0].tls);
  CHECK(m.streams()[0].host == "api.example");
  CHECK(m.streams()[0].peer == "10.0.0.1:80");
  CHECK(m.read_times() == Times{20, 20});
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::done);
}

TEST_CASE("a TLS client's reset is found by the library's own write") {
  Machine m;
  m.seen();
  m.library_reads(sealed(kRequest).size(), 3);
  m.tls_reads(kRequest, 2, 5);
  m.tls_writes(head() + token("a"), 10);
  m.write_fails(EPIPE, 20, true);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::reset);
}

// ---- When a chunk could have been written.

TEST_CASE("what a thread writes it could not have written before its newest input came") {
  auto m = serving();
  m.socket = 71;
  m.seen();
  m.arrives(5, 20);
  m.reads("token", 30);
  m.socket = Machine::kSocket;
  m.writes(token("a"), 40);
  CHECK(m.arrivals() == Times{20});
  SECTION("and the same input gives another one") {
    m.woke = 25;  // before it was read
    m.writes(token("b"), 50);
    CHECK(m.arrivals().back() == 20);
  }
  SECTION("but behind a wait that brought nothing it could not either") {
    m.woke = 45;
    m.writes(token("b"), 50);
    CHECK(m.arrivals().back() == 45);
  }
  SECTION("an input without a known arrival woke the thread at the earliest") {
    m.socket = 72;
    m.reads("token", 48);  // nobody saw this socket
    m.socket = Machine::kSocket;
    m.woke = 46;
    m.writes(token("b"), 50);
    CHECK(m.arrivals().back() == 46);
  }
  SECTION("nothing is known where it slept in another way since, and nothing came") {
    m.writes(token("b"), 50);
    CHECK(m.arrivals().back() == -1);
  }
}

TEST_CASE("what a client sends during the answer does not become a part of it") {
  auto m = serving();
  m.socket = 71;
  m.seen();
  m.arrives(5, 20);
  m.reads("token", 21);
  m.socket = Machine::kSocket;
  m.arrives(10, 30);
  m.reads("from below", 31);
  m.writes(token("a"), 40);
  CHECK(m.arrivals() == Times{20});
}

TEST_CASE("of many inputs behind a pause each stream has its own") {
  Machine m;
  const auto client = [&](std::uint64_t n) { m.socket = 100 + n; };
  const auto engine = [&](std::uint64_t n) { m.socket = 200 + n; };
  for (std::uint64_t n = 0; n < 3; ++n) {
    client(n);
    m.seen();
    m.reads(kRequest, 5);
    m.writes(head(), 6);
    engine(n);
    m.seen();
  }
  Ns now = 10;
  for (int round = 0; round < 5; ++round) {
    for (std::uint64_t n = 0; n < 3; ++n) {
      m.waits(now += 10);
      m.woke = now;
      engine(n);
      m.arrives(5, now += 1);
      m.reads("token", now += 1);
      client(n);
      m.writes(token("a"), now += 1);
    }
  }
  // They come while the thread is paused, two of each, and are read one behind the other.
  for (Ns i = 0; i < 6; ++i) {
    engine(static_cast<std::uint64_t>(i % 3));
    m.arrives(5, 1'000 + i);
  }
  for (std::uint64_t n = 0; n < 3; ++n) {
    engine(n);
    m.reads("token", 2'000 + static_cast<Ns>(n));
    m.reads("token", 2'010 + static_cast<Ns>(n));
  }
  const auto before = m.arrivals().size();
  for (std::uint64_t n = 0; n < 3; ++n) {
    client(n);
    m.writes(token("b"), 2'020 + static_cast<Ns>(n));
  }
  const auto arrivals = m.arrivals();
  CHECK(Times(arrivals.begin() + static_cast<std::ptrdiff_t>(before), arrivals.end()) ==
        Times{1'000, 1'001, 1'002});
}

TEST_CASE("another thread's input is not this one's") {
  auto m = serving();
  m.tid = 11;
  m.socket = 71;
  m.seen();
  m.arrives(5, 20);
  m.reads("token", 30);
  m.tid = Machine::kTid;
  m.socket = Machine::kSocket;
  m.writes(token("a"), 40);
  CHECK(m.arrivals() == Times{-1});
}

TEST_CASE("an input over TLS counts when its record arrived, and ciphertext is no input") {
  auto m = serving();
  m.socket = 71;
  m.seen();
  m.arrives(30, 20);
  m.library_reads(30, 25);
  m.tls_reads("HTTP/1.1 200 OK\r\n\r\n", 24, 30);
  m.socket = Machine::kSocket;
  m.writes(token("a"), 40);
  m.socket = 72;
  m.seen();
  m.arrives(sealed("x").size(), 50);
  m.reads(sealed("x"), 51);
  m.socket = Machine::kSocket;
  m.woke = 22;
  m.writes(token("b"), 60);
  CHECK(m.arrivals() == Times{20, 20});
}

// ---- Waits.

TEST_CASE("a thread that wrote a chunk waits when it next blocks or reads") {
  auto m = serving();
  m.waits(15);
  CHECK(m.wait_times().empty());
  m.writes(token("a"), 20);
  m.waits(25);
  m.waits(26);
  CHECK(m.wait_times() == Times{25});
  m.writes(token("b"), 30);
  m.socket = 71;
  m.reads("input", 35);
  CHECK(m.wait_times() == Times{25, 35});
}

TEST_CASE("a sleep for a lock behind a write is none of the chunk's") {
  auto m = serving();
  m.writes(token("a"), 20);
  m.tracker.lock_slept({21, 30, m.pid, m.tid});
  CHECK(m.all<LockWaited>().empty());
}

// ---- What is told to the kernel side.

TEST_CASE("the kernel side is told in which direction a connection streams") {
  const auto changes_of = [](StreamTracker& tracker) {
    std::vector<std::pair<bool, bool>> changes;
    for (const auto& change : tracker.take_streaming()) {
      changes.emplace_back(change.reads, change.writes);
    }
    return changes;
  };
  using Changes = std::vector<std::pair<bool, bool>>;
  auto server = serving();
  CHECK(changes_of(server.tracker) == Changes{{false, true}});
  server.writes(token("a") + kLastPiece, 20);
  CHECK(changes_of(server.tracker) == Changes{{false, false}});
  Machine client;
  client.writes(kRequest, 5);
  client.reads(head(), 10);
  CHECK(changes_of(client.tracker) == Changes{{true, false}});
  Machine tls;
  tls.seen();
  tls.reads(sealed(kRequest), 3);
  tls.tls_reads(kRequest, 2, 5);
  tls.tls_writes(head(), 9);
  const auto told = tls.tracker.take_streaming();
  REQUIRE(told.size() == 1);
  CHECK(told[0].connection == Machine::kTls);
  CHECK(told[0].writes);
}

}  // namespace
}  // namespace gcause
