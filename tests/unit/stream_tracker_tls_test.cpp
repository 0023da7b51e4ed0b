// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>
#include <vector>

#include "stream/stream_tracker.h"
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

/// A blocking read of one record: the library reads its head, then its body, in one TLS call.
void blocking_read(Machine& m, const std::string& plaintext, Ns arrival, Ns begin, Ns end) {
  m.arrives(sealed(plaintext).size(), arrival);
  m.library_reads(5, end - 2);
  m.library_reads(sealed(plaintext).size() - 5, end - 1);
  m.tls_reads(plaintext, begin, end);
}

Machine blocking() {
  Machine m;
  m.seen(0xFFFFFFFF - 100, "10.0.0.1:443");
  m.tls_writes(kRequest, 5);
  blocking_read(m, head(), 8, 6, 10);
  return m;
}

TEST_CASE("the library's own reads tell when a record arrived") {
  auto m = blocking();
  blocking_read(m, token("a"), 20, 11, 25);
  blocking_read(m, token("b") + token("c"), 30, 26, 45);
  REQUIRE(m.streams().size() == 1);
  CHECK(m.streams()[0].tls);
  CHECK(m.streams()[0].host == "api.example");
  CHECK(m.streams()[0].request_end == 5);
  CHECK(m.arrivals() == Times{20, 30, 30});
  CHECK(m.read_times() == Times{25, 45, 45});
}

TEST_CASE("the peer of a TLS stream is its socket's") {
  CHECK(blocking().streams().at(0).peer == "10.0.0.1:443");
}

TEST_CASE("a record that comes in two segments arrived with the second") {
  auto m = blocking();
  const auto record = sealed(token("a"));
  m.arrives(20, 20);
  m.arrives(record.size() - 20, 30);
  m.library_reads(5, 35);
  m.library_reads(record.size() - 5, 36);
  m.tls_reads(token("a"), 12, 37);
  CHECK(m.arrivals() == Times{30});
}

TEST_CASE("a record that is taken in parts keeps its arrival") {
  auto m = blocking();
  const auto plaintext = token("a") + token("b");
  m.arrives(sealed(plaintext).size(), 20);
  m.library_reads(5, 22);
  m.library_reads(sealed(plaintext).size() - 5, 23);
  m.tls_reads(plaintext.substr(0, 20), 12, 25);
  m.tls_reads(plaintext.substr(20), 26, 28);
  CHECK(m.arrivals() == Times{20, 20});
  CHECK(m.read_times() == Times{25, 28});
}

TEST_CASE("the library's reads of ciphertext are no plaintext") {
  Machine m;
  m.seen();
  m.library_reads(100, 5);
  m.library_reads(200, 6);
  CHECK(m.timeline.empty());
}

TEST_CASE("a TLS read that fails gives nothing") {
  auto m = blocking();
  blocking_read(m, token("a"), 20, 11, 25);
  const auto before = m.timeline.size();
  m.tls_fails(26, 27);
  m.tls_fails(28, 29);
  CHECK(m.timeline.size() == before);
  // It asked for more only when it blocks, or when a read brings something.
  m.waits(30);
  CHECK(m.wait_times() == Times{30});
}

TEST_CASE("a TLS read that brings something says when its thread asked for it") {
  auto m = blocking();
  blocking_read(m, token("a"), 20, 11, 25);
  blocking_read(m, token("b"), 30, 28, 35);
  CHECK(m.wait_times() == Times{28});
}

/// An event loop: it reads ciphertext from the socket, hands it to the library through memory, and
/// takes plaintext until there is none.
class Loop {
 public:
  explicit Loop(Machine& machine, std::uint64_t socket = Machine::kSocket,
                std::uint64_t tls = Machine::kTls)
      : m(machine), socket_(socket), tls_(tls) {
    m.socket = socket_;
    m.seen(1'000, "10.0.0.1:443");
    m.tls_writes(kRequest, 1, tls_);
  }
  void arrives(const std::vector<std::string>& plaintexts, Ns at) {
    m.socket = socket_;
    for (const auto& text : plaintexts) m.arrives(sealed(text).size(), at);
  }
  void receives(const std::vector<std::string>& plaintexts, Ns at) {
    m.socket = socket_;
    std::string ciphertext;
    for (const auto& text : plaintexts) ciphertext += sealed(text);
    m.reads(ciphertext, at);
  }
  void takes(const std::vector<std::string>& plaintexts, Ns at) {
    for (const auto& text : plaintexts) {
      m.tls_reads(text, at, at + 1, tls_);
      at += 2;
    }
    m.tls_fails(at, at + 1, tls_);
  }
  void one(const std::string& plaintext, Ns arrival, Ns read) {
    arrives({plaintext}, arrival);
    receives({plaintext}, read);
    takes({plaintext}, read + 1);
  }

  Machine& m;

 private:
  std::uint64_t socket_;
  std::uint64_t tls_;
};

TEST_CASE("where the program reads the ciphertext, each record keeps its own arrival") {
  Machine m;
  Loop loop(m);
  loop.one(head(), 5, 6);
  loop.arrives({token("a")}, 20);
  loop.arrives({token("bb")}, 30);
  loop.arrives({token("ccc"), token("dd")}, 40);
  loop.receives({token("a"), token("bb"), token("ccc"), token("dd")}, 50);
  loop.takes({token("a"), token("bb"), token("ccc"), token("dd")}, 51);
  CHECK(m.arrivals() == Times{20, 30, 40, 40});
  CHECK(m.read_times() == Times{52, 54, 56, 58});
  CHECK(m.streams().at(0).tls);
  CHECK(m.streams().at(0).peer == "10.0.0.1:443");
}

TEST_CASE("a record cut by the socket's reads arrived with its last byte") {
  Machine m;
  Loop loop(m);
  loop.one(head(), 5, 6);
  const auto record = sealed(token("a"));
  m.arrives(10, 20);
  m.reads(record.substr(0, 10), 21);
  m.tls_fails(22, 23);
  m.arrives(record.size() - 10, 30);
  m.reads(record.substr(10), 31);
  loop.takes({token("a")}, 32);
  CHECK(m.arrivals() == Times{30});
}

TEST_CASE("ciphertext is never taken for plaintext") {
  Machine m;
  Loop loop(m);
  loop.receives({head() + token("a")}, 5);
  CHECK(m.timeline.empty());
}

TEST_CASE("an event loop with two connections keeps their arrivals apart") {
  Machine m;
  Loop first(m), second(m, 71, 0x8000);
  first.one(head(), 5, 6);
  second.one(head() + framed(": hi\n\n"), 10, 11);
  // From here on their records come between each other's ciphertext and plaintext.
  for (Ns i = 0; i < 5; ++i) {
    const auto a = token(std::string(static_cast<std::size_t>(3 + i), 'a'));
    const auto b = token(std::string(static_cast<std::size_t>(20 + 2 * i), 'b'));
    first.arrives({a}, 100 * i + 100);
    second.arrives({b}, 100 * i + 120);
    first.receives({a}, 100 * i + 130);
    second.receives({b}, 100 * i + 131);
    first.takes({a}, 100 * i + 132);
    second.takes({b}, 100 * i + 142);
  }
  REQUIRE(m.streams().size() == 2);
  std::map<std::uint64_t, Times> arrivals;
  for (const auto& chunk : m.chunks()) {
    arrivals[chunk.stream].push_back(chunk.arrival.value_or(-1));
  }
  CHECK(arrivals[m.streams()[0].id] == Times{100, 200, 300, 400, 500});
  CHECK(arrivals[m.streams()[1].id] == Times{120, 220, 320, 420, 520});
}

TEST_CASE("in an event loop plaintext and ciphertext do not count as two asks") {
  Machine m;
  Loop loop(m);
  loop.one(head(), 5, 6);
  loop.one(token("a"), 20, 21);
  m.waits(30);
  loop.one(token("b"), 40, 41);
  m.waits(50);
  CHECK(m.wait_times() == Times{30, 50});
}

TEST_CASE("a TLS object that was freed leaves nothing to one at the same address") {
  auto m = blocking();
  blocking_read(m, token("a"), 20, 11, 25);
  m.tracker.tls_freed({30, Machine::kPid, Machine::kTls});
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::truncated);
  CHECK(m.ends()[0].at == 30);
  m.socket = 71;
  m.seen(5, "10.9.9.9:443");
  blocking_read(m, head() + token("b"), 40, 35, 45);
  REQUIRE(m.streams().size() == 2);
  CHECK(m.streams()[1].peer == "10.9.9.9:443");
  CHECK_FALSE(m.streams()[1].request_end);
  CHECK(m.arrivals() == Times{20, 40});
}

TEST_CASE("a socket whose TLS object was freed is not taken for that of a later one") {
  Machine m;
  Loop first(m);
  first.one(head(), 5, 6);
  for (Ns at = 10; at < 50; at += 10) first.one(token("a"), at, at + 1);
  m.tracker.tls_freed({60, Machine::kPid, Machine::kTls});  // the socket stays open for a while
  Loop second(m, 71, 0x8000);
  second.one(head(), 70, 71);
  for (Ns at = 80; at < 120; at += 10) second.one(token("a"), at, at + 1);
  CHECK(m.arrivals() == Times{10, 20, 30, 40, 80, 90, 100, 110});
}

TEST_CASE("after a read that no socket can have carried the next one finds its own") {
  Machine m;
  Loop loop(m);
  loop.arrives({std::string(500, 'x')}, 4);
  loop.receives({std::string(500, 'x')}, 5);
  loop.takes({head()}, 6);
  loop.one(token("a"), 20, 21);
  loop.one(token("b"), 30, 31);
  CHECK(m.arrivals() == Times{20, 30});
}

TEST_CASE("sockets that a loop empties before their TLS objects are read are not unread") {
  Machine m;
  Loop first(m), second(m, 71, 0x8000);
  // All is the same on both, so that no lengths tell which is whose.
  constexpr Ns kStep = 30 * kMillisecond;
  for (int i = 0; i < 25; ++i) {
    const auto text = i == 0 ? head() : token("a");
    for (auto* loop : {&first, &second}) loop->arrives({text}, i * kStep + 1);
    for (auto* loop : {&first, &second}) loop->receives({text}, i * kStep + 2);
    for (auto* loop : {&first, &second}) loop->takes({text}, i * kStep + 10);
  }
  REQUIRE(m.streams().size() == 2);
  for (const auto& stream : m.streams()) CHECK(stream.protocol == StreamProtocol::http1);
  CHECK(m.chunks().size() == 48);
}

TEST_CASE("the end of the socket ends the streams of its TLS connection") {
  auto m = blocking();
  blocking_read(m, token("a"), 20, 11, 25);
  SECTION("a read finds it") { m.fails(-ECONNRESET, 30); }
  SECTION("the process closes it") { m.closed(30, true, ECONNRESET); }
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::reset);
  CHECK(m.ends()[0].at == 30);
}

TEST_CASE("the same TLS object's address in two processes is two connections") {
  auto m = blocking();
  blocking_read(m, token("a"), 20, 11, 25);
  m.pid = 2;
  m.socket = 71;
  m.seen();
  blocking_read(m, head() + token("x"), 30, 26, 35);
  CHECK(m.streams().size() == 2);
  CHECK(m.chunks()[1].pid == 2);
  CHECK(m.chunks()[1].index == 0);
}

TEST_CASE("a TLS connection whose socket nobody knows gives chunks without arrivals") {
  Machine m;
  m.tls_writes(kRequest, 1);
  m.tls_reads(head() + token("a"), 5, 10);
  CHECK(m.arrivals() == Times{-1});
  CHECK_FALSE(m.streams().at(0).peer);
}

TEST_CASE("a TLS stream that is complete ends as done, an open one as open") {
  auto m = blocking();
  blocking_read(m, token("a") + kLastPiece, 20, 11, 25);
  REQUIRE(m.ends().size() == 1);
  CHECK(m.ends()[0].end == StreamEnd::done);
  m.tls_writes(kRequest, 30);
  blocking_read(m, head() + token("b"), 40, 31, 45);
  m.tracker.finish(50);
  REQUIRE(m.ends().size() == 2);
  CHECK(m.ends()[1].end == StreamEnd::open);
}

}  // namespace
}  // namespace gcause
