// SPDX-License-Identifier: Apache-2.0
#include "stream/tls_match.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <map>
#include <set>
#include <string>

namespace gcause {
namespace {

constexpr std::optional<Ns> kUnknown;
constexpr std::uint64_t kA = 1, kB = 2;

/// Sockets whose records are made by hand, and one TLS object that may belong to any of them.
struct Lab {
  void record(std::uint64_t socket, std::size_t length, std::optional<Ns> at, char type = 23) {
    const std::string bytes = std::string{type, '\x03', '\x03', static_cast<char>(length >> 8),
                                          static_cast<char>(length & 0xFF)} +
                              std::string(length, 'x');
    logs[socket].feed(std::as_bytes(std::span(bytes)), {nullptr, 0, at});
  }
  void offer(std::uint64_t socket) { match.offer(socket, logs[socket].first()); }
  std::optional<Ns> take(std::uint64_t count) {
    return match.take(count,
                      [&](std::uint64_t id) { return logs.count(id) ? &logs.at(id) : nullptr; });
  }
  std::set<std::uint64_t> left() {
    std::set<std::uint64_t> sockets;
    match.for_each([&](std::uint64_t socket) { sockets.insert(socket); });
    return sockets;
  }

  std::map<std::uint64_t, TlsRecordLog> logs;
  TlsMatch match;
};

TEST_CASE("plaintext arrived with the record that is longer by the cipher's constant") {
  const std::size_t overhead = GENERATE(16, 17, 24);
  Lab lab;
  for (std::size_t i = 0; i < 6; ++i) lab.record(kA, 100 + i + overhead, static_cast<Ns>(10 * i));
  lab.offer(kA);
  for (std::size_t i = 0; i < 6; ++i) CHECK(lab.take(100 + i) == static_cast<Ns>(10 * i));
  CHECK(lab.match.socket() == kA);
}

TEST_CASE("a handshake of TLS 1.3 is not taken for data that is nearly as long") {
  const bool tls13 = GENERATE(true, false);
  Lab lab;
  if (tls13) lab.record(kA, 1, 0, 20);  // the cipher changes
  lab.record(kA, 69, 1);                // Finished, with SHA-384
  lab.record(kA, 255, 2);               // a session ticket
  lab.record(kA, 45 + 17, 3);           // SETTINGS
  lab.record(kA, 120 + 17, 4);
  lab.offer(kA);
  const std::optional<Ns> settings = lab.take(45), data = lab.take(120);
  CHECK(settings == (tls13 ? 3 : 1));  // otherwise AES-GCM of TLS 1.2 would fit
  CHECK(data == (tls13 ? 4 : 2));
}

TEST_CASE("a socket is certain after four reads that it alone could have carried") {
  Lab lab;
  for (int i = 0; i < 4; ++i) lab.record(kA, 117, i);
  lab.offer(kA);
  for (int i = 0; i < 3; ++i) lab.take(100);
  CHECK_FALSE(lab.match.socket());
  lab.take(100);
  CHECK(lab.match.socket() == kA);
}

TEST_CASE("a socket that belongs to another object is out, and its arrivals with it") {
  Lab lab;
  for (int i = 0; i < 2; ++i) {
    lab.record(kA, 117, (10 + i) * kMillisecond);
    lab.record(kB, 117, (90 + i) * kMillisecond);
  }
  lab.offer(kA);
  lab.offer(kB);
  CHECK(lab.take(100) == kUnknown);
  lab.match.withdraw(kB);
  CHECK(lab.left() == std::set<std::uint64_t>{kA});
  CHECK(lab.take(100) == 11 * kMillisecond);
}

TEST_CASE("of two sockets the one whose records cannot have carried the reads drops out") {
  Lab lab;
  lab.record(kA, 117, 10 * kMillisecond);
  lab.record(kA, 67, 30 * kMillisecond);
  lab.record(kB, 117, 20 * kMillisecond);
  lab.record(kB, 57, 40 * kMillisecond);
  lab.offer(kA);
  lab.offer(kB);
  CHECK(lab.take(100) == kUnknown);  // both could be, and they do not agree
  CHECK(lab.left() == std::set{kA, kB});
  CHECK(lab.take(50) == 30 * kMillisecond);
  CHECK(lab.left() == std::set{kA});
}

TEST_CASE("sockets that agree on the arrival need not be told apart") {
  Lab lab;
  lab.record(kA, 117, 10 * kMillisecond);
  lab.record(kB, 117, 10 * kMillisecond + 5);
  lab.offer(kA);
  lab.offer(kB);
  CHECK(lab.take(100) == 10 * kMillisecond + 5);
}

TEST_CASE("a socket whose arrival is not known leaves the answer open") {
  Lab lab;
  lab.record(kA, 117, 10);
  lab.record(kB, 117, std::nullopt);
  lab.offer(kA);
  lab.offer(kB);
  CHECK(lab.take(100) == kUnknown);
}

TEST_CASE("handshake records and session tickets in front of the first data carry nothing") {
  Lab lab;
  lab.record(kA, 200, 1, 22);
  lab.record(kA, 234, 2);
  lab.record(kA, 117, 10);
  lab.offer(kA);
  CHECK(lab.take(100) == 10);
}

TEST_CASE("a record of the handshake that is nearly as long as the first data is none") {
  // OpenSSL with TLS_AES_256_GCM_SHA384, and what an HTTP/2 server sends first.
  Lab lab;
  for (const std::size_t length : {32, 800, 281, 69}) lab.record(kA, length, 1);  // up to Finished
  for (int ticket = 0; ticket < 2; ++ticket) lab.record(kA, 255, 2);
  for (const std::size_t count : {51, 9, 40, 65}) {
    lab.record(kA, count + 17, static_cast<Ns>(10 * count));
  }
  lab.offer(kA);
  for (const std::size_t count : {51, 9, 40, 65}) CHECK(lab.take(count) == 10 * count);
  CHECK(lab.match.socket() == kA);
}

TEST_CASE("a record may be taken in parts once the cipher is known") {
  Lab lab;
  lab.record(kA, 117, 10);
  lab.record(kA, 1'017, 20);
  lab.record(kA, 47, 30);
  lab.offer(kA);
  CHECK(lab.take(100) == 10);
  CHECK(lab.take(400) == 20);
  CHECK(lab.take(400) == 20);
  CHECK(lab.take(200) == 20);
  CHECK(lab.take(30) == 30);
}

TEST_CASE("a certain socket is not given up for a ticket between its records") {
  Lab lab;
  for (int i = 0; i < 4; ++i) lab.record(kA, 117, i);
  lab.record(kA, 50, 8);
  lab.record(kA, 117, 10);
  lab.offer(kA);
  for (int i = 0; i < 4; ++i) lab.take(100);
  CHECK(lab.take(100) == 10);
}

TEST_CASE("records from before the offer, and sockets that are gone, are out") {
  Lab lab;
  lab.record(kA, 117, 1);
  lab.match.offer(kA, lab.logs[kA].end());
  lab.record(kA, 117, 10);
  CHECK(lab.take(100) == 10);
  lab.logs.erase(kA);
  CHECK(lab.take(100) == kUnknown);
  CHECK(lab.match.wants_offers());
}

TEST_CASE("records that were forgotten are passed over") {
  Lab lab;
  lab.record(kA, 117, 1);
  lab.offer(kA);
  lab.logs[kA].forget();
  lab.record(kA, 117, 10);
  CHECK(lab.take(100) == 10);
}

TEST_CASE("a read that no socket can have carried leaves nobody") {
  Lab lab;
  CHECK(lab.match.wants_offers());
  lab.record(kA, 117, 1);
  lab.offer(kA);
  CHECK_FALSE(lab.match.wants_offers());
  CHECK(lab.take(90) == kUnknown);
  CHECK(lab.match.wants_offers());
  CHECK_FALSE(lab.match.socket());
}

}  // namespace
}  // namespace gcause
