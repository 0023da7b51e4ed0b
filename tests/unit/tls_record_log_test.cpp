// SPDX-License-Identifier: Apache-2.0
#include "stream/tls_record_log.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>

namespace gcause {
namespace {

constexpr std::optional<Ns> kUnknown;
constexpr std::uint32_t kOverhead = 17;  // TLS 1.3: content type and tag

std::string record(std::size_t plaintext, char type = 23, std::size_t overhead = kOverhead) {
  const auto length = plaintext + overhead;
  std::string bytes{type, '\x03', '\x03', static_cast<char>(length >> 8),
                    static_cast<char>(length & 0xFF)};
  return bytes + std::string(length, '\xA5');
}

std::span<const std::byte> as_span(const std::string& text) { return std::as_bytes(std::span(text)); }

void feed(TlsRecordLog& log, const std::string& bytes, Ns at) {
  log.feed(as_span(bytes), {nullptr, 0, at});
}

TEST_CASE("a record's head is a content type and a version of TLS") {
  CHECK(TlsRecordLog::looks_like_record(as_span("\x17\x03\x03")));
  CHECK(TlsRecordLog::looks_like_record(as_span("\x16\x03\x01\x02")));
  CHECK_FALSE(TlsRecordLog::looks_like_record(as_span("\x17\x03")));
  CHECK_FALSE(TlsRecordLog::looks_like_record(as_span("\x17\x02\x03")));
  CHECK_FALSE(TlsRecordLog::looks_like_record(as_span("\x17\x03\x05")));
  CHECK_FALSE(TlsRecordLog::looks_like_record(as_span("\x19\x03\x03")));
  CHECK_FALSE(TlsRecordLog::looks_like_record(as_span("GET / HTTP/1.1")));
  CHECK_FALSE(TlsRecordLog::looks_like_record(as_span("HTTP/1.1 200 OK")));
  CHECK_FALSE(TlsRecordLog::looks_like_record({}));
}

TEST_CASE("plaintext arrived with the last byte of its record") {
  const std::size_t piece = GENERATE(1, 2, 5, 6, 30, 1'000);
  CAPTURE(piece);
  const auto bytes = record(100) + record(50);
  TlsRecordLog log;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const auto part = bytes.substr(at, piece);
    feed(log, part, static_cast<Ns>(at + part.size()));
  }
  const auto read_with = [&](std::size_t end) {
    return static_cast<Ns>(std::min((end + piece - 1) / piece * piece, bytes.size()));
  };
  CHECK(log.waiting() == 2);
  CHECK(log.take(100) == read_with(122));
  CHECK(log.take(50) == read_with(194));
  CHECK(log.take(1) == kUnknown);
}

TEST_CASE("records of one read arrive by their sequence numbers") {
  ArrivalLog arrivals;
  arrivals.begin(0xFFFFFF80u);
  arrivals.add(0xFFFFFF80u + 122, 10);
  arrivals.add(0xFFFFFF80u + 194, 20);
  TlsRecordLog log;
  const auto bytes = record(100) + record(50);
  log.feed(as_span(bytes), {&arrivals, 0xFFFFFF80u, std::nullopt});
  CHECK(log.take(100) == 10);
  CHECK(log.take(50) == 20);
}

TEST_CASE("a record may be taken in several reads") {
  TlsRecordLog log;
  feed(log, record(1'000), 10);
  feed(log, record(30), 20);
  CHECK(log.take(400) == 10);
  CHECK(log.take(400) == 10);
  CHECK(log.take(200) == 10);
  CHECK(log.take(30) == 20);
}

TEST_CASE("records that are not data carry no plaintext") {
  TlsRecordLog log;
  feed(log, record(200, 22) + record(1, 20) + record(2, 21), 5);
  feed(log, record(60), 10);
  CHECK(log.take(60) == 10);
}

TEST_CASE("a record too small for the plaintext did not carry it") {
  // A session ticket of TLS 1.3 has the type of data.
  TlsRecordLog log;
  feed(log, record(40), 5);
  feed(log, record(60), 10);
  CHECK(log.take(60) == 10);
}

TEST_CASE("records of TLS 1.2, with an explicit nonce or without") {
  TlsRecordLog log;
  feed(log, record(60, 23, 24) + record(70, 23, 16), 10);
  CHECK(log.take(60) == 10);
  CHECK(log.take(70) == 10);
  CHECK(log.take(1) == kUnknown);
}

TEST_CASE("when the library asks for more, all complete records were consumed") {
  TlsRecordLog log;
  const auto second = record(60);
  feed(log, record(60) + second.substr(0, 20), 10);
  log.drained();
  CHECK(log.waiting() == 0);
  feed(log, second.substr(20), 20);
  CHECK(log.take(60) == 20);
}

TEST_CASE("bytes that cannot be fed are skipped inside a record's body") {
  TlsRecordLog log;
  const auto first = record(1'000);
  feed(log, first.substr(0, 100), 10);
  log.skip(500);
  feed(log, first.substr(600) + record(30), 20);
  CHECK(log.take(1'000) == 20);
  CHECK(log.take(30) == 20);
}

TEST_CASE("after bytes are missing the log starts again at a read that begins with a record") {
  TlsRecordLog log;
  const auto first = record(100);
  feed(log, first.substr(0, 50), 10);
  SECTION("skipped over the end of the record") { log.skip(first.size()); }
  SECTION("bytes that are no record") { feed(log, first.substr(50) + "HTTP/1.1 200 OK\r\n", 15); }
  CHECK(log.waiting() == 0);
  feed(log, std::string(40, '\xA5'), 20);
  CHECK(log.take(30) == kUnknown);
  feed(log, record(30), 30);
  CHECK(log.take(30) == 30);
}

TEST_CASE("a length that no record can have is a lost place") {
  TlsRecordLog log;
  feed(log, std::string("\x17\x03\x03\xFF\xFF", 5) + std::string(100, 'x'), 10);
  feed(log, record(30), 20);
  CHECK(log.waiting() == 1);
  CHECK(log.take(30) == 20);
}

TEST_CASE("a connection that nobody decrypts does not make the log grow without end") {
  TlsRecordLog log;
  for (int i = 0; i < 10'000; ++i) feed(log, record(1), i);
  CHECK(log.waiting() <= 4'096);
  CHECK(log.take(1) == 10'000 - 4'096);
}

}  // namespace
}  // namespace gcause
