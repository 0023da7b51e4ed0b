// SPDX-License-Identifier: Apache-2.0
//
// HTTP/2 of which not all is seen: attached in the middle, with gaps, or hostile.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <vector>

#include "allocated_bytes.h"
#include "http2_test_support.h"

using gcause::Http2End;
using gcause::Http2Frame;
using gcause::Http2Parser;
using gcause::StreamDirection;
using namespace gcause::test;

namespace {

constexpr auto kRead = StreamDirection::read;
constexpr auto kWrite = StreamDirection::write;
constexpr unsigned kEndStream = Http2Frame::end_stream;

/// A client that has asked for streams 1, 3 and 5 and got their heads before anybody looked.
struct Running : Http2Seen {
  Running() : Http2Seen(Http2Parser::Start::unknown) {
    for (int i = 0; i < 3; ++i) {
      request(request_headers());
      response(response_headers());
    }
  }
  void asks(std::uint32_t stream) {
    write(headers_frame(stream, request(request_headers()), kEndStream));
  }
  void answered(std::uint32_t stream) {
    read(headers_frame(stream, response(response_headers())));
  }
  Deflater request, response;
};

/// The same, seen from the beginning.
struct Known : Http2Seen {
  Known() {
    write(kHttp2Preface + settings_frame());
    read(settings_frame());
    for (const std::uint32_t stream : {1, 3, 5}) {
      write(headers_frame(stream, request(request_headers()), kEndStream));
      read(headers_frame(stream, response(response_headers())));
    }
  }
  Deflater request, response;
};

/// Keeps nothing, so that what the parser keeps can be measured.
struct Counter : gcause::Http2Handler {
  void on_request(std::uint32_t, const gcause::Http2RequestHead&) override { ++requests; }
  void on_request_end(std::uint32_t, std::size_t) override {}
  void on_head(std::uint32_t, const gcause::Http2ResponseHead&) override { ++heads; }
  void on_body(std::uint32_t, std::span<const std::byte>, std::size_t) override {}
  void on_body_skipped(std::uint32_t, std::uint64_t) override {}
  void on_end(std::uint32_t, Http2End) override { ++ends; }
  std::size_t requests = 0, heads = 0, ends = 0;
};

void require_unknown(const SeenStream& stream) {
  CHECK_FALSE(stream.method);
  CHECK(stream.status == 0);
  CHECK(stream.type.empty());
  CHECK_FALSE(stream.whole);
}

}  // namespace

TEST_CASE("HTTP/2 in the middle: bodies whose heads were missed") {
  Running client;
  client.read(data_frame(3, "data: a\n\n"));
  client.read(data_frame(5, "data: b\n\n") + data_frame(3, "data: c\n\n", kEndStream));
  require_unknown(client[3]);
  require_unknown(client[5]);
  CHECK(client[3].body == "data: a\n\ndata: c\n\n");
  CHECK(client[5].body == "data: b\n\n");
  CHECK(client[3].end == Http2End::complete);
  CHECK_FALSE(client[5].end);
  CHECK_FALSE(client.parser.requests());
  // A reset one does not come back with what was on its way.
  client.write(reset_frame(5));
  client.read(data_frame(5, "data: d\n\n"));
  CHECK(client.streams[5].size() == 1);
}

TEST_CASE("HTTP/2 in the middle: the first bytes are the rest of a frame") {
  const std::string frames = data_frame(3, std::string(500, 'x') + "\n\n") + window_update(0) +
                             data_frame(3, "data: a\n\n") + data_frame(5, "data: b\n\n");
  const std::size_t first = 9 + 502;  // the first frame, of which a part is seen
  for (std::size_t from = 1; from <= first; ++from) {
    INFO("from " << from);
    Running client;
    client.read(frames.substr(from));
    CHECK(client[3].body == "data: a\n\n");
    CHECK(client[5].body == "data: b\n\n");
  }
}

TEST_CASE("HTTP/2 in the middle: text and noise are no frames, a read that begins with one is") {
  Running client;
  for (const std::string& noise :
       {std::string("data: {}\n\n"), std::string(700, '\0'), std::string("\0\0", 2),
        std::string(300, '\xFF'), data_frame(3, "data: cut\n\n").substr(0, 8)}) {
    client.read(noise);
    CHECK(client.streams.empty());
  }
  client.read(data_frame(3, "data: a\n\n"));
  CHECK(client[3].body == "data: a\n\n");
  // One that is longer than the read may as well be noise, such as a header without its first byte.
  Running other;
  other.read(data_frame(3, std::string(9000, 'x')).substr(0, 4000));
  CHECK(other.streams.empty());
}

TEST_CASE("HTTP/2 in the middle: header blocks are decoded as far as they can be") {
  Running client;
  client.asks(7);
  // :authority stood in the table, :method and the rest did not have to.
  CHECK(client[7].method == "POST");
  CHECK_FALSE(client[7].host);
  CHECK(client.parser.requests() == kWrite);
  client.answered(7);
  CHECK(client[7].status == 200);
  CHECK(client[7].type.empty());
  CHECK_FALSE(client[7].whole);
  // What is new since then is known.
  client.write(headers_frame(9, client.request(request_headers("new.example")), kEndStream));
  client.read(headers_frame(9, client.response(response_headers("text/plain"))));
  CHECK(client[9].host == "new.example");
  CHECK(client[9].type == "text/plain");
  CHECK(client[9].whole);
  client.write(headers_frame(11, client.request(request_headers("new.example")), kEndStream));
  client.read(headers_frame(11, client.response(response_headers("text/plain"))));
  CHECK(client[11].host == "new.example");
  CHECK(client[11].type == "text/plain");
  // Older ones may go on; the head of a newer one would have been seen.
  client.read(data_frame(5, "data: a\n\n"));
  require_unknown(client[5]);
  client.read(data_frame(13, "data: a\n\n"));
  CHECK_FALSE(client.saw(13));
}

TEST_CASE("HTTP/2 in the middle: an upload is no response") {
  Running client;
  client.write(data_frame(5, "data: uploaded\n\n"));
  CHECK_FALSE(client[5].end);  // nothing tells yet
  client.asks(7);
  CHECK(client[5].end == Http2End::cut);
  client.write(data_frame(5, "data: uploaded\n\n"));
  CHECK(client.streams[5].size() == 1);
  client.answered(5);
  client.read(data_frame(5, "data: a\n\n"));
  CHECK(client[5].status == 200);
  CHECK(client[5].body == "data: a\n\n");
}

TEST_CASE("HTTP/2 in the middle: the trailer of a response that was missed is no response") {
  Running client;
  client.asks(7);
  client.read(headers_frame(5, client.response({{"x-trailer", "1"}}), kEndStream));
  CHECK_FALSE(client.saw(5));
  client.read(data_frame(3, "data: a\n\n"));
  client.read(headers_frame(3, client.response({{"x-trailer", "1"}}), kEndStream));
  CHECK(client[3].end == Http2End::complete);
}

TEST_CASE("HTTP/2 gaps: inside of a body the framing is kept") {
  const std::string event = padded(Http2Frame::data, 0, 1, "data: 0123456789\n\n", 7);
  const std::size_t body_begin = 10, body_end = 28, all = event.size();
  for (std::size_t from = 9; from < all; ++from) {
    for (std::size_t to = from + 1; to <= all; ++to) {
      INFO("without " << from << " to " << to);
      Known client;
      client.read(event.substr(0, from));
      REQUIRE(client.skip(kRead, to - from));
      client.read(event.substr(to) + data_frame(3, "data: b\n\n") + data_frame(1, "!"));
      CHECK(client[3].body == "data: b\n\n");
      CHECK_FALSE(client[1].end);
      if (from == 9) {  // the length of the padding went with it: nothing of this is for sure
        CHECK(client[1].body == "!");
        continue;
      }
      const auto lost = std::min(to, body_end) - std::min(from, body_end);
      CHECK(client[1].skipped == lost);
      CHECK(client[1].body.size() == body_end - body_begin - lost + 1);
    }
  }
}

TEST_CASE("HTTP/2 gaps: beyond a frame the bodies of that direction end, and come back") {
  Known client;
  client.read(data_frame(1, "data: a\n\n") + data_frame(3, std::string(100, 'x')).substr(0, 50));
  CHECK_FALSE(client.skip(kRead, 200));
  CHECK(client[3].skipped == 59);  // as much of it as there was
  CHECK(client[1].end == Http2End::cut);
  CHECK(client[3].end == Http2End::cut);
  client.read(data_frame(1, "data: b\n\n"));
  CHECK(client.streams[1].size() == 2);
  require_unknown(client[1]);
  CHECK(client[1].body == "data: b\n\n");
  // What the gap took from the table is not known, and nothing is told instead.
  client.write(headers_frame(7, client.request(request_headers()), kEndStream));
  client.read(headers_frame(7, client.response(response_headers())));
  CHECK(client[7].host == "api.example");  // nothing of this direction was missing
  CHECK(client[7].type.empty());
  CHECK_FALSE(client[7].whole);
}

TEST_CASE("HTTP/2 gaps: one in a header block") {
  Known client;
  const std::string head = headers_frame(7, client.response(response_headers("text/plain")));
  client.write(headers_frame(7, client.request(request_headers()), kEndStream));
  client.read(head.substr(0, 12));
  REQUIRE(client.skip(kRead, head.size() - 12));
  CHECK(client[7].status == 0);
  CHECK(client[7].type.empty());
  CHECK_FALSE(client[7].whole);
  client.read(data_frame(7, "data: a\n\n") + data_frame(5, "data: b\n\n"));
  CHECK(client[7].body == "data: a\n\n");
  CHECK(client[5].body == "data: b\n\n");
}

TEST_CASE("HTTP/2 gaps: of a long request its end is told as far as it is seen") {
  Known client;
  const std::string prompt(40000, 'p');
  const std::string call = headers_frame(7, client.request(request_headers())) +
                           data_frame(7, prompt.substr(0, 16384)) +
                           data_frame(7, prompt.substr(0, 16384), kEndStream);
  client.write(call.substr(0, 2048));
  CHECK(client[7].request_ends == 0);
  CHECK_FALSE(client.skip(kWrite, call.size() - 2048));
  CHECK(client[7].request_ends == 1);
  CHECK_FALSE(client[1].end);  // responses go the other way
  // The next request has the next number, so no header block was missed.
  client.write(headers_frame(9, client.request(request_headers()), kEndStream));
  CHECK(client[9].host == "api.example");
  CHECK(client[9].request_ends == 1);
}

TEST_CASE("HTTP/2 gaps: requests that were missed are found out by their numbers") {
  Known client;
  client.request(request_headers("missed.example"));
  client.write(headers_frame(9, client.request(request_headers()), kEndStream));
  CHECK(client[9].method == "POST");
  CHECK_FALSE(client[9].host);  // it would have been missed.example
  CHECK_FALSE(client.saw(7));
}

TEST_CASE("HTTP/2 gaps: under suspicion nothing is decoded by what was known") {
  Known client;
  client.response(response_headers("text/plain"));
  client.parser.on_suspicion();
  client.read(headers_frame(7, client.response(response_headers())));
  CHECK(client[7].status == 200);
  CHECK(client[7].type.empty());
  CHECK_FALSE(client[7].whole);
  client.read(data_frame(1, "data: a\n\n"));
  CHECK(client[1].body == "data: a\n\n");
}

TEST_CASE("HTTP/2 faults: what no peer may send is found out, and frames are found again") {
  const std::string faults[] = {
      frame(Http2Frame::data, 0, 0, "x"),
      frame(Http2Frame::headers, Http2Frame::end_headers, 0, "x"),
      frame(Http2Frame::settings, 0, 1),
      frame(Http2Frame::settings, 0, 0, "seven b"),
      frame(Http2Frame::ping, 0, 0, "seven b"),
      frame(Http2Frame::ping, 0, 1, "8 bytes."),
      frame(Http2Frame::window_update, 0, 1, "five."),
      frame(Http2Frame::rst_stream, 0, 1, "five."),
      frame(Http2Frame::rst_stream, 0, 0, "four"),
      frame(Http2Frame::goaway, 0, 0, "seven b"),
      frame(Http2Frame::priority, 0, 1, "six by"),
      frame(Http2Frame::continuation, 0, 0, "x"),
      frame(Http2Frame::data, Http2Frame::padded, 1, std::string("\x05" "abcd")),
      frame(Http2Frame::data, Http2Frame::padded, 1),
      frame(Http2Frame::headers, Http2Frame::with_priority, 1, "four"),
      std::string("data: {\"choices\":[]}\n\n"),
  };
  for (const std::string& fault : faults) {
    INFO(fault.substr(9));
    Known client;
    client.read(fault);
    CHECK(client[1].end == Http2End::cut);
    client.read(data_frame(3, "data: a\n\n"));
    CHECK(client.streams[3].size() == 2);
    CHECK(client[3].body == "data: a\n\n");
  }
}

TEST_CASE("HTTP/2 faults: frames between those of a header block cost the block only") {
  Known client;
  client.write(headers_frame(7, client.request(request_headers()), kEndStream));
  const std::string block = client.response(response_headers("text/plain"));
  client.read(frame(Http2Frame::headers, 0, 7, block.substr(0, 2)));
  client.read(data_frame(1, "data: a\n\n"));
  client.read(frame(Http2Frame::continuation, Http2Frame::end_headers, 7, block.substr(2)));
  CHECK(client[1].body == "data: a\n\n");
  CHECK(client[7].status == 0);
  CHECK_FALSE(client[7].whole);
}

TEST_CASE("HTTP/2 faults: endless header blocks, floods and many streams take no memory") {
  Known client;
  const std::string filler(16384, '\0');
  client.read(frame(Http2Frame::headers, 0, 7));
  const auto before = allocated_bytes();
  for (int i = 0; i < 1000; ++i) client.read(frame(Http2Frame::continuation, 0, 7, filler));
  CHECK(allocated_bytes() - before < 2 * Http2Parser::kMaxBlock);
  client.read(frame(Http2Frame::continuation, Http2Frame::end_headers, 7));
  CHECK(client[7].status == 0);
  client.read(data_frame(1, "data: a\n\n"));
  CHECK(client[1].body == "data: a\n\n");
  for (std::uint32_t stream = 9; stream < 200'001; stream += 2) {
    const std::string reset = reset_frame(stream);
    client.parser.feed(kRead, std::as_bytes(std::span(reset)), client);
  }
  CHECK(client.parser.open_streams() == 4);
}

TEST_CASE("HTTP/2 faults: more open streams than are kept") {
  Counter seen;
  Http2Parser parser;
  Deflater request, response;
  const auto feed = [&](StreamDirection direction, const std::string& bytes) {
    parser.feed(direction, std::as_bytes(std::span(bytes)), seen);
  };
  feed(kWrite, kHttp2Preface);
  constexpr std::uint32_t kStreams = Http2Parser::kMaxStreams + 1000;
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    feed(kWrite, headers_frame(2 * i + 1, request(request_headers())));
  }
  CHECK(parser.open_streams() == Http2Parser::kMaxStreams);
  CHECK(seen.requests == Http2Parser::kMaxStreams);
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    feed(kRead, headers_frame(2 * i + 1, response(response_headers()), kEndStream));
  }
  CHECK(seen.heads == Http2Parser::kMaxStreams);
  CHECK(seen.ends == Http2Parser::kMaxStreams);
  CHECK(parser.open_streams() == 0);
}

TEST_CASE("HTTP/2: what ten thousand open streams take while they are idle") {
  constexpr std::size_t kConnections = 1000, kStreams = 10;
  Deflater request, response;
  std::vector<std::string> written, read;
  for (std::uint32_t i = 0; i < kStreams; ++i) {
    Headers asked = request_headers(), answered = response_headers();
    for (const char* name : {"user-agent", "authorization", "x-stainless-lang", "accept"}) {
      asked.emplace_back(name, std::string(60, 'v'));
    }
    for (const char* name : {"date", "server", "x-request-id", "cf-ray", "set-cookie"}) {
      answered.emplace_back(name, std::string(50, 'v') + std::to_string(i));
    }
    written.push_back(headers_frame(2 * i + 1, request(asked)) + data_frame(2 * i + 1, "{}", 1));
    read.push_back(headers_frame(2 * i + 1, response(answered)) +
                   data_frame(2 * i + 1, "data: a\n\n"));
  }
  Counter nobody;
  std::vector<Http2Parser> parsers;
  parsers.reserve(kConnections);
  const auto before = allocated_bytes();
  for (std::size_t i = 0; i < kConnections; ++i) {
    auto& parser = parsers.emplace_back();
    parser.feed(kWrite, std::as_bytes(std::span(kHttp2Preface)), nobody);
    for (std::size_t stream = 0; stream < kStreams; ++stream) {
      parser.feed(kWrite, std::as_bytes(std::span(written[stream])), nobody);
      parser.feed(kRead, std::as_bytes(std::span(read[stream])), nobody);
    }
    REQUIRE(parser.open_streams() == kStreams);
  }
  const auto taken = allocated_bytes() - before + kConnections * sizeof(Http2Parser);
  CAPTURE(taken / (kConnections * kStreams));
  CHECK(taken / (kConnections * kStreams) < 2048);
}
