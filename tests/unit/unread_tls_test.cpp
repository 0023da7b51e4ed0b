// SPDX-License-Identifier: Apache-2.0
#include "stream/unread_tls.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>
#include <vector>

#include "stream_test_support.h"

namespace gcause {
namespace {

using test::Machine;
using test::sealed;
using Times = std::vector<Ns>;

const std::string kHello = sealed(std::string(200, 'h'), 22);
const std::string kChangeCipher{'\x14', '\x03', '\x03', '\x00', '\x01', '\x01'};
const std::string kFinished = sealed(std::string(36, 'f'));
const std::string kRequest = sealed(std::string(120, 'r'));
const std::string kTicket = sealed(std::string(230, 't'));
const std::string kRecord = sealed(std::string(60, 'd'));
constexpr Ns kMs = kMillisecond;

/// A connection of TLS 1.3 of which no library is seen.
class Unread {
 public:
  Unread() {
    m.seen(1'000, "10.0.0.9:443");
    m.tracker.tls_caller({0, Machine::kPid, Machine::kSocket, 7, {0x1111, 0x2222}});
  }
  void shakes_hands() {
    m.writes(kHello, 1);
    brings(sealed(std::string(90, 's'), 22) + sealed(std::string(900, 'c')), 2 * kMs);
    m.writes(kChangeCipher + kFinished, 3 * kMs);
  }
  void asks(Ns at) { m.writes(kRequest, at); }
  /// The bytes arrive, and are read a tenth of a millisecond later.
  void brings(const std::string& bytes, Ns at) {
    m.arrives(bytes.size(), at);
    m.reads(bytes, at + kMs / 10);
  }
  /// `count` records, one by one.
  Ns streams(int count, Ns from, Ns interval = 20 * kMs, const std::string& record = kRecord) {
    for (int i = 0; i < count; ++i) brings(record, from + i * interval);
    return from + count * interval;
  }
  std::vector<TlsUnread> unread() const { return m.all<TlsUnread>(); }

  Machine m;
};

TEST_CASE("a connection that nobody reads is told with its figures when it ends") {
  Unread c;
  c.shakes_hands();
  c.asks(10 * kMs);
  c.brings(kTicket + kTicket, 15 * kMs);
  c.brings(kRecord, 20 * kMs);
  c.brings(kRecord, 50 * kMs);
  c.m.closed(60 * kMs, true);
  REQUIRE(c.unread().size() == 1);
  const auto unread = c.unread()[0];
  CHECK(unread.pid == Machine::kPid);
  CHECK(unread.socket == Machine::kSocket);
  CHECK(unread.fd == 7);
  CHECK(unread.peer == "10.0.0.9:443");
  CHECK(unread.records == 4);
  CHECK(unread.bytes == 2 * (230 + 17) + 2 * (60 + 17));
  CHECK(unread.begin == 15 * kMs + kMs / 10);
  CHECK(unread.end == 50 * kMs + kMs / 10);
  CHECK(unread.longest_silence == 30 * kMs);
  CHECK(unread.longest_unread == kMs / 10);
  CHECK_FALSE(unread.stream);
  CHECK(c.m.streams().empty());
}

TEST_CASE("whose it is is asked once, with what was on the stack") {
  Unread c;
  c.shakes_hands();
  c.asks(10 * kMs);
  c.brings(kTicket + kTicket, 15 * kMs);
  CHECK(c.m.tracker.take_unread().empty());
  c.brings(kRecord, 20 * kMs);
  const auto asked = c.m.tracker.take_unread();
  REQUIRE(asked.size() == 1);
  CHECK(asked[0].socket == Machine::kSocket);
  CHECK(asked[0].words == std::vector<std::uint64_t>{0x1111, 0x2222});
  c.brings(kRecord, 30 * kMs);
  CHECK(c.m.tracker.take_unread().empty());
}

TEST_CASE("a handshake alone is nothing that could not be read") {
  Unread c;
  c.shakes_hands();
  SECTION("nothing was asked") { c.brings(kTicket + kTicket + kTicket, 15 * kMs); }
  SECTION("only what keeps HTTP/2 going was written") {
    c.m.writes(sealed(std::string(17, 'p')), 10 * kMs);
    c.brings(kTicket + kTicket + kTicket, 15 * kMs);
  }
  SECTION("the answer brought tickets only") {
    c.asks(10 * kMs);
    c.brings(kTicket + kTicket, 15 * kMs);
  }
  c.m.closed(60 * kMs, true);
  CHECK(c.unread().empty());
}

TEST_CASE("in TLS 1.2 the first data is the request") {
  Unread c;
  c.m.writes(kHello, 1);
  c.brings(sealed(std::string(900, 's'), 22), 2 * kMs);
  c.m.writes(sealed(std::string(70, 'k'), 22) + kChangeCipher + sealed(std::string(24, 'f'), 22),
             3 * kMs);
  c.asks(10 * kMs);
  c.brings(kRecord + kRecord + kRecord, 15 * kMs);
  c.m.closed(60 * kMs, true);
  REQUIRE(c.unread().size() == 1);
  CHECK(c.unread()[0].records == 3);
}

TEST_CASE("a connection from before the attach counts from its next record on") {
  Unread c;
  c.streams(3, 10 * kMs);
  c.m.tracker.finish(100 * kMs);
  REQUIRE(c.unread().size() == 1);
  CHECK(c.unread()[0].records == 3);
}

TEST_CASE("records that come one by one are a stream from the eleventh on") {
  Unread c;
  c.shakes_hands();
  c.asks(10 * kMs);
  c.brings(kTicket + kTicket, 15 * kMs);
  const auto streaming = GENERATE(false, true);
  CAPTURE(streaming);
  c.streams(streaming ? 15 : 10, 100 * kMs);
  c.m.tracker.finish(kSecond);
  // The tickets are the first of the run.
  const std::size_t chunks = streaming ? 6 : 1;
  REQUIRE(c.m.streams().size() == 1);
  const auto stream = c.m.streams()[0];
  CHECK(stream.tls);
  CHECK(stream.protocol == StreamProtocol::tls_records);
  CHECK(stream.peer == "10.0.0.9:443");
  CHECK_FALSE(stream.host);
  CHECK_FALSE(stream.request_end);
  REQUIRE(c.m.chunks().size() == chunks);
  CHECK(c.m.chunks()[0].index == 0);
  CHECK(c.m.chunks()[0].arrival == 280 * kMs);
  CHECK(c.m.chunks()[0].read == 280 * kMs + kMs / 10);
  CHECK(c.m.chunks()[0].bytes == 77);
  REQUIRE(c.m.ends().size() == 1);
  CHECK(c.m.ends()[0].end == StreamEnd::open);
  CHECK(c.m.ends()[0].bytes == chunks * 77);
  REQUIRE(c.unread().size() == 1);
  CHECK(c.unread()[0].stream == stream.id);
}

TEST_CASE("what comes otherwise is no stream") {
  Unread c;
  c.shakes_hands();
  c.asks(10 * kMs);
  SECTION("a download: large records") {
    c.streams(40, 20 * kMs, 20 * kMs, sealed(std::string(8'000, 'd')));
  }
  SECTION("a burst: all within a tenth of a second") { c.streams(60, 20 * kMs, 3 * kMs / 2); }
  SECTION("at once") {
    std::string all;
    for (int i = 0; i < 60; ++i) all += kRecord;
    c.brings(all, 20 * kMs);
  }
  SECTION("a feed with few events") { c.streams(40, 20 * kMs, 1'001 * kMs); }
  SECTION("questions and answers") {
    for (Ns i = 0; i < 40; ++i) {
      c.asks((20 + 10 * i) * kMs);
      c.brings(kRecord, (25 + 10 * i) * kMs);
    }
  }
  c.m.tracker.finish(100 * kSecond);
  CHECK(c.m.streams().empty());
  CHECK(c.unread().size() == 1);
}

TEST_CASE("records that arrive together are one chunk") {
  Unread c;
  c.asks(1);
  const auto next = c.streams(11, 20 * kMs);
  c.m.arrives(2 * kRecord.size(), next);
  c.m.reads(kRecord, next + kMs);
  c.m.reads(kRecord, next + 2 * kMs);
  // What queued up behind a pause arrived one by one and is read at once.
  for (Ns i = 1; i <= 3; ++i) c.m.arrives(kRecord.size(), next + 20 * i * kMs);
  c.m.reads(kRecord + kRecord + kRecord, next + 100 * kMs);
  CHECK(c.m.chunks().size() == 1 + 1 + 3);
  CHECK(c.m.arrivals() ==
        Times{220 * kMs, next, next + 20 * kMs, next + 40 * kMs, next + 60 * kMs});
}

TEST_CASE("the next request ends the stream where its last record was read") {
  Unread c;
  c.asks(1);
  c.streams(12, 20 * kMs);
  c.m.writes(sealed(std::string(13, 'w')), 250 * kMs);  // a WINDOW_UPDATE
  CHECK(c.m.ends().empty());
  c.asks(5 * kSecond);
  REQUIRE(c.m.ends().size() == 1);
  CHECK(c.m.ends()[0].end == StreamEnd::done);
  CHECK(c.m.ends()[0].at == 240 * kMs + kMs / 10);
  c.streams(12, 6 * kSecond);
  CHECK(c.m.streams().size() == 2);
  c.m.fails(-ECONNRESET, 7 * kSecond);
  REQUIRE(c.m.ends().size() == 2);
  CHECK(c.m.ends()[1].end == StreamEnd::reset);
}

TEST_CASE("the end of the connection ends the stream, complete or not") {
  Unread c;
  c.asks(1);
  c.streams(12, 20 * kMs);
  c.m.fails(0, kSecond);
  REQUIRE(c.m.ends().size() == 1);
  CHECK(c.m.ends()[0].end == StreamEnd::eof);
}

TEST_CASE("while records are a stream, all of them are copied") {
  Unread c;
  c.asks(1);
  c.streams(11, 20 * kMs);
  const auto changes = c.m.tracker.take_streaming();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].connection == Machine::kSocket);
  CHECK(changes[0].reads);
  CHECK_FALSE(changes[0].writes);
}

TEST_CASE("a thread that waits for records owes a wait as for other chunks") {
  Unread c;
  c.asks(1);
  const auto next = c.streams(11, 20 * kMs);
  c.m.waits(next - 10 * kMs);
  c.streams(1, next);
  c.m.waits(next + 10 * kMs);
  CHECK(c.m.wait_times() == Times{next - 10 * kMs, next + 10 * kMs});
}

TEST_CASE("what a TLS object reads from memory is not unread") {
  Unread c;
  c.shakes_hands();
  c.m.tls_writes(test::kRequest, 9 * kMs);
  c.asks(10 * kMs);
  for (Ns i = 0; i < 20; ++i) {
    c.brings(sealed(test::token("x")), (20 + 20 * i) * kMs);
    c.m.tls_reads(test::token("x"), (20 + 20 * i) * kMs + kMs / 5, (20 + 20 * i) * kMs + kMs / 4);
  }
  CHECK(c.m.tracker.take_unread().empty());
  c.m.tracker.finish(kSecond);
  CHECK(c.unread().empty());
  CHECK(c.m.streams().empty());
}

TEST_CASE("a library that is probed late takes its connection back") {
  Unread c;
  c.asks(1);
  const auto next = c.streams(12, 20 * kMs);
  REQUIRE(c.m.streams().size() == 1);
  c.m.arrives(kRecord.size(), next);
  c.m.library_reads(kRecord.size(), next + kMs);
  c.m.tls_reads(std::string(60, 'd'), next, next + 2 * kMs);
  REQUIRE(c.m.ends().size() == 1);
  CHECK(c.m.ends()[0].end == StreamEnd::eof);
  c.m.tracker.finish(kSecond);
  CHECK(c.unread().empty());
}

TEST_CASE("requests are seen through writes of which only the head was copied") {
  Unread c;
  c.shakes_hands();
  const std::string copied = kRequest.substr(0, 40);
  auto io = c.m.io_at(10 * kMs, Direction::write, copied);
  io.result = static_cast<std::int64_t>(kRequest.size());
  c.m.tracker.io(io);
  c.streams(3, 20 * kMs);
  c.m.tracker.finish(kSecond);
  CHECK(c.unread().size() == 1);
}

}  // namespace
}  // namespace gcause
