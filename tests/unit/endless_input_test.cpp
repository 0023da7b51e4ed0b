// SPDX-License-Identifier: Apache-2.0
//
// What a peer that never comes to an end costs: 16 MiB of one line, of fields, of framing, of
// frames.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "allocated_bytes.h"
#include "http2_test_support.h"
#include "stream/ndjson_parser.h"
#include "stream/sse_parser.h"
#include "stream_test_support.h"

using namespace gcause;
using namespace gcause::test;

namespace {

constexpr std::size_t kEndless = std::size_t{16} << 20;

std::span<const std::byte> as_span(std::string_view text) { return std::as_bytes(std::span(text)); }

std::string repeated(std::string_view text, std::size_t times) {
  std::string all;
  for (; times > 0; --times) all += text;
  return all;
}

/// The most memory that was held beyond what there was at first, while `feed(piece)` was called
/// with `piece` until 16 MiB had passed.
template <typename Feed>
std::size_t most_memory(const std::string& piece, Feed feed) {
  const std::size_t before = allocated_bytes();
  std::size_t most = before;
  for (std::size_t passed = 0; passed < kEndless; passed += piece.size()) {
    feed(piece);
    most = std::max(most, allocated_bytes());
  }
  return most - before;
}

}  // namespace

TEST_CASE("endless: an event without an end holds its limit", "[endless]") {
  struct Kind {
    std::string_view name, begin, again;
  };
  for (const auto& kind :
       {Kind{"a line of data", "data: ", "y"}, Kind{"lines of data", "", "data: 0123456789\n"},
        Kind{"empty lines of data", "", "data\n"}, Kind{"a type", "event: ", "y"},
        Kind{"types", "", "event: abcdefghijkl\n"}, Kind{"a comment", ":", "y"},
        Kind{"comments", "", ": x\n"}, Kind{"a field that nobody knows", "x", "y"},
        Kind{"fields that nobody knows", "data: x\n", "x: y\n"},
        Kind{"nothing but CR", "", "\r"}}) {
    INFO(kind.name);
    SseParser parser;
    std::size_t events = 0;
    const auto count = [&](const SseParser::Event&) { ++events; };
    parser.feed(as_span(kind.begin), count);
    const std::string piece = repeated(kind.again, 16384 / kind.again.size());
    const auto most =
        most_memory(piece, [&](const auto& part) { parser.feed(as_span(part), count); });
    CHECK(events == 0);
    // A string that grows by doubling is twice its limit, and a line and its data are two.
    CHECK(most <= 4 * SseParser::kMaxEventData + 8192);
  }
}

TEST_CASE("endless: a line of JSON without an end holds its limit", "[endless]") {
  for (const std::string_view again : {"y", " ", "{", "\r", "y "}) {
    INFO("'" << again << "'");
    NdjsonParser parser;
    std::size_t lines = 0;
    const auto count = [&](const NdjsonParser::Line&) { ++lines; };
    const std::string piece = repeated(again, 16384 / again.size());
    const auto most =
        most_memory(piece, [&](const auto& part) { parser.feed(as_span(part), count); });
    CHECK(lines == 0);
    CHECK(most <= 2 * NdjsonParser::kMaxLine + 8192);
  }
}

TEST_CASE("endless: what a whole connection holds", "[endless]") {
  const std::string ndjson =
      "HTTP/1.1 200 OK\r\nContent-Type: application/x-ndjson\r\nTransfer-Encoding: chunked\r\n\r\n";
  struct Kind {
    std::string_view name;
    std::string begin, again;
  };
  for (const auto& kind :
       {Kind{"a status line", "HTTP/1.1 200 ", "O"}, Kind{"a field", "HTTP/1.1 200 OK\r\nx: ", "y"},
        Kind{"the name of a field", "HTTP/1.1 200 OK\r\n", "y"},
        Kind{"fields", "HTTP/1.1 200 OK\r\n", "x: y\r\n"},
        Kind{"a folded field", "HTTP/1.1 200 OK\r\nx: y\r\n", " y\r\n"},
        Kind{"codings", "HTTP/1.1 200 OK\r\n", "Content-Encoding: gzip\r\n"},
        Kind{"interim responses", "", "HTTP/1.1 100 Continue\r\n\r\n"},
        Kind{"empty lines", "", "\r\n"}, Kind{"the size of a chunk", head(), "0"},
        Kind{"an extension", head() + "5;", "x"}, Kind{"trailers", head() + "0\r\n", "x: y\r\n"},
        Kind{"a trailer", head() + "0\r\nx: ", "y"},
        Kind{"a line of an event", head() + "ffffffff\r\ndata: ", "y"},
        Kind{"a line of JSON", ndjson + "ffffffff\r\n{", "y"}}) {
    INFO(kind.name);
    Machine machine;
    machine.seen();
    machine.writes(kRequest, 1);
    machine.reads(kind.begin, 2);
    const std::string piece = repeated(kind.again, 16384 / kind.again.size());
    Ns at = 3;
    const auto most = most_memory(piece, [&](const auto& part) { machine.reads(part, at++); });
    CHECK(machine.chunks().empty());
    CHECK(most <= std::size_t{512} << 10);
  }
}

TEST_CASE("endless: HTTP/2 header blocks, settings and frames of unknown types", "[endless]") {
  struct Kind {
    std::string_view name;
    std::string begin, again;
  };
  const std::string filler(1000, '\x2E');
  for (const auto& kind :
       {Kind{"CONTINUATION", frame(Http2Frame::headers, 0, 1, "\x88"),
             frame(Http2Frame::continuation, 0, 1, filler)},
        Kind{"empty CONTINUATION", frame(Http2Frame::headers, 0, 1, "\x88"),
             frame(Http2Frame::continuation, 0, 1)},
        Kind{"SETTINGS", "", settings_frame(setting(1, 1U << 31))}, Kind{"PING", "", kPing},
        Kind{"unknown frames", "", frame(0xEE, 0, 1, filler)},
        Kind{"promises", "", frame(Http2Frame::push_promise, 4, 1, big_endian(2, 4) + "\x82")}}) {
    INFO(kind.name);
    Machine machine;
    machine.seen();
    machine.tls_writes(kHttp2Preface + settings_frame() +
                           headers_frame(1, Deflater()(request_headers()), Http2Frame::end_stream),
                       1);
    machine.tls_reads(settings_frame() + kind.begin, 1, 2);
    const std::string piece = repeated(kind.again, 1 + 16384 / kind.again.size());
    Ns at = 3;
    const auto most = most_memory(piece, [&](const auto& part) {
      machine.tls_reads(part, at, at + 1);
      at += 2;
    });
    CHECK(machine.chunks().empty());
    CHECK(most <= std::size_t{512} << 10);
  }
}
