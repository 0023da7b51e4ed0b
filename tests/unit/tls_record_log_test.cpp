// SPDX-License-Identifier: Apache-2.0
#include "stream/tls_record_log.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>

namespace gcause {
namespace {

constexpr std::optional<Ns> kUnknown;

std::string record(std::size_t length, char type = 23) {
  std::string bytes{type, '\x03', '\x03', static_cast<char>(length >> 8),
                    static_cast<char>(length & 0xFF)};
  return bytes + std::string(length, '\xA5');
}

std::span<const std::byte> as_span(const std::string& text) {
  return std::as_bytes(std::span(text));
}

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

TEST_CASE("a record arrived with its last byte, wherever the reads cut it") {
  const std::size_t piece = GENERATE(1, 2, 4, 5, 6, 30, 1'000);
  CAPTURE(piece);
  const auto bytes = record(100) + record(200, 22) + record(50);
  TlsRecordLog log;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const auto part = bytes.substr(at, piece);
    feed(log, part, static_cast<Ns>(at + part.size()));
  }
  const auto read_with = [&](std::size_t end) {
    return static_cast<Ns>(std::min((end + piece - 1) / piece * piece, bytes.size()));
  };
  REQUIRE(log.first() == 0);
  REQUIRE(log.end() == 3);
  CHECK(log.at(0).arrival == read_with(105));
  CHECK(log.at(1).arrival == read_with(310));
  CHECK(log.at(2).arrival == read_with(365));
  CHECK(log.at(0).length == 100);
  CHECK(log.at(1).length == 200);
  CHECK(log.at(2).length == 50);
  CHECK(log.at(0).data);
  CHECK_FALSE(log.at(1).data);
  CHECK(log.at(2).data);
}

TEST_CASE("records of one read arrive by their sequence numbers") {
  ArrivalLog arrivals;
  arrivals.begin(0xFFFFFF80u);
  arrivals.add(0xFFFFFF80u + 105, 10);
  arrivals.add(0xFFFFFF80u + 160, 20);
  TlsRecordLog log;
  log.feed(as_span(record(100) + record(50) + record(1)), {&arrivals, 0xFFFFFF80u, std::nullopt});
  REQUIRE(log.end() == 3);
  CHECK(log.at(0).arrival == 10);
  CHECK(log.at(1).arrival == 20);
  CHECK(log.at(2).arrival == kUnknown);
}

TEST_CASE("a record that is not complete is not told") {
  TlsRecordLog log;
  feed(log, record(100).substr(0, 104), 10);
  CHECK(log.end() == 0);
  feed(log, "x", 20);
  REQUIRE(log.end() == 1);
  CHECK(log.at(0).arrival == 20);
}

TEST_CASE("bytes that cannot be fed are skipped inside a record's body") {
  TlsRecordLog log;
  const auto first = record(1'000);
  feed(log, first.substr(0, 100), 10);
  log.skip(500);
  feed(log, first.substr(600) + record(30), 20);
  REQUIRE(log.end() == 2);
  CHECK(log.at(0).length == 1'000);
  CHECK(log.at(0).arrival == 20);
  CHECK(log.at(1).length == 30);
}

TEST_CASE("a record whose end is skipped is complete, and nobody knows when it arrived") {
  TlsRecordLog log;
  const auto open = record(100);
  feed(log, open.substr(0, 50), 10);
  log.skip(open.size() - 50);
  REQUIRE(log.end() == 1);
  CHECK(log.at(0).length == 100);
  CHECK_FALSE(log.at(0).arrival);
  feed(log, record(30), 20);
  REQUIRE(log.end() == 2);
  CHECK(log.at(1).arrival == 20);
}

TEST_CASE("after bytes are missing the log starts again at a read that begins with a record") {
  TlsRecordLog log;
  const auto open = record(100);
  feed(log, record(40) + open.substr(0, 50), 10);
  SECTION("skipped over the end of the record") { log.skip(open.size()); }
  SECTION("skipped inside a head") {
    feed(log, open.substr(50) + "\x17\x03", 12);
    log.skip(1);
  }
  SECTION("bytes that are no record") { feed(log, open.substr(50) + "HTTP/1.1 200 OK\r\n", 15); }
  CHECK(log.first() == log.end());
  const auto before = log.end();
  feed(log, std::string(40, '\xA5'), 20);
  CHECK(log.end() == before);
  feed(log, record(30), 30);
  REQUIRE(log.end() == before + 1);
  CHECK(log.at(before).length == 30);
  CHECK(log.at(before).arrival == 30);
}

TEST_CASE("the longest record is read, a longer one is a lost place") {
  TlsRecordLog log;
  feed(log, record(16'384 + 2'048), 10);
  CHECK(log.end() == 1);
  feed(log, record(16'384 + 2'049), 20);
  CHECK(log.end() == 1);
  CHECK(log.first() == 1);
  feed(log, record(30), 30);
  CHECK(log.end() == 2);
}

TEST_CASE("an empty record is a record") {
  TlsRecordLog log;
  feed(log, record(0), 10);
  REQUIRE(log.end() == 1);
  CHECK(log.at(0).arrival == 10);
}

TEST_CASE("records that were forgotten keep their numbers") {
  TlsRecordLog log;
  feed(log, record(10) + record(20) + record(30).substr(0, 8), 10);
  log.forget();
  CHECK(log.first() == 2);
  CHECK(log.end() == 2);
  feed(log, record(30).substr(8), 20);
  REQUIRE(log.end() == 3);
  CHECK(log.at(2).length == 30);
}

TEST_CASE("a connection that nobody decrypts does not make the log grow without end") {
  TlsRecordLog log;
  for (int i = 0; i < 10'000; ++i) feed(log, record(static_cast<std::size_t>(1 + i % 100)), i);
  CHECK(log.end() == 10'000);
  CHECK(log.end() - log.first() <= 4'096);
  CHECK(log.end() - log.first() >= 64);
  CHECK(log.at(log.end() - 1).arrival == 9'999);
  CHECK(log.at(log.first()).arrival == static_cast<Ns>(log.first()));
}

}  // namespace
}  // namespace gcause
