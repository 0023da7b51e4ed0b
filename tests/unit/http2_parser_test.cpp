// SPDX-License-Identifier: Apache-2.0
#include "stream/http2_parser.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "http2_test_support.h"

using gcause::Http2End;
using gcause::Http2Frame;
using gcause::Http2Guess;
using gcause::Http2Parser;
using gcause::StreamDirection;
using namespace gcause::test;

namespace {

constexpr auto kRead = StreamDirection::read;
constexpr auto kWrite = StreamDirection::write;
constexpr unsigned kEndStream = Http2Frame::end_stream;

/// A client under its two compressors, which has sent its preface and got the server's.
struct Client : Http2Seen {
  Client() {
    write(kHttp2Preface + settings_frame());
    read(settings_frame() + kSettingsAck);
  }
  void asks(std::uint32_t stream, const Headers& headers = request_headers()) {
    write(headers_frame(stream, request(headers), kEndStream));
  }
  std::string head(std::uint32_t stream, const Headers& headers = response_headers(),
                   unsigned flags = 0) {
    return headers_frame(stream, response(headers), flags);
  }
  void answered(std::uint32_t stream, const Headers& headers = response_headers()) {
    read(head(stream, headers));
  }

  Deflater request, response;
};

std::string bytes_of(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text += static_cast<char>(value);
  return text;
}

}  // namespace

TEST_CASE("HTTP/2: one exchange, from the preface to the end") {
  Client client;
  client.write(headers_frame(1, client.request(request_headers("api.example:8443"))));
  CHECK(client[1].method == "POST");
  CHECK(client[1].host == "api.example:8443");
  CHECK(client[1].request_ends == 0);
  client.write(data_frame(1, "{\"stream\":true}", kEndStream));
  CHECK(client[1].request_ends == 1);
  CHECK_FALSE(client[1].status);
  client.read(client.head(1, {{":status", "200"},
                              {"content-type", " Text/Event-Stream; charset=utf-8"},
                              {"content-encoding", "identity"},
                              {"content-encoding", "GZIP, br"}}));
  CHECK(client[1].status == 200);
  CHECK(client[1].type == "text/event-stream");
  CHECK(client[1].encoding == "gzip, br");
  CHECK(client[1].whole);
  client.read(data_frame(1, "data: a\n\n"));
  client.read(data_frame(1, "data: b\n\n"));
  CHECK(client[1].body == "data: a\n\ndata: b\n\n");
  CHECK_FALSE(client[1].end);
  client.read(data_frame(1, "", kEndStream));
  CHECK(client[1].end == Http2End::complete);
  CHECK(client.parser.requests() == kWrite);
  CHECK(client.parser.open_streams() == 0);
}

TEST_CASE("HTTP/2: C30, padding, a split frame header, interleaved streams, control frames") {
  const std::string padded_event =
      bytes_of({0x00, 0x00, 0x0F, 0x00, 0x08, 0x00, 0x00, 0x00, 0x01, 0x05}) + "data: a\n\n" +
      std::string(5, '\0');
  REQUIRE(padded_event.size() == 24);
  REQUIRE(padded_event == padded(Http2Frame::data, 0, 1, "data: a\n\n", 5));
  for (std::size_t cut = 0; cut <= padded_event.size(); ++cut) {
    INFO("cut at " << cut);
    Client client;
    client.asks(1);
    client.asks(3);
    const std::string first = client.head(1);
    client.read(first + client.head(3));
    client.read(padded_event.substr(0, cut));
    client.read(padded_event.substr(cut));
    client.read(kPing + data_frame(3, "data: b\n\n") + window_update(0) + window_update(1));
    client.read(data_frame(3, "data: cut ") + settings_frame(setting(4, 65535)) + padded_event +
                data_frame(3, "over two\n\n", kEndStream));
    client.read(data_frame(1, "", kEndStream));
    CHECK(client[1].body == "data: a\n\ndata: a\n\n");
    CHECK(client[3].body == "data: b\n\ndata: cut over two\n\n");
    CHECK(client[1].end == Http2End::complete);
    CHECK(client[3].end == Http2End::complete);
  }
}

TEST_CASE("HTTP/2: padding and priority of a header block, and padding alone") {
  Client client;
  const std::string priority = big_endian(0x80000000U, 4) + "\x10";
  client.write(padded(Http2Frame::headers,
                      Http2Frame::end_headers | Http2Frame::with_priority | kEndStream, 1,
                      priority + client.request(request_headers()), 200));
  CHECK(client[1].host == "api.example");
  CHECK(client[1].request_ends == 1);
  client.read(padded(Http2Frame::headers, Http2Frame::end_headers, 1,
                     client.response(response_headers()), 0));
  client.read(padded(Http2Frame::data, 0, 1, "", 255));
  CHECK(client[1].body.empty());
  client.read(padded(Http2Frame::data, kEndStream, 1, "x", 0));
  CHECK(client[1].body == "x");
  CHECK(client[1].end == Http2End::complete);
}

TEST_CASE("HTTP/2: a header block over CONTINUATION frames, each cut anywhere") {
  Deflater request;
  const std::string block = request(request_headers());
  for (std::size_t cut = 0; cut <= block.size(); ++cut) {
    Client client;
    const std::string frames =
        frame(Http2Frame::headers, kEndStream, 1, block.substr(0, cut)) +
        frame(Http2Frame::continuation, 0, 1) +
        frame(Http2Frame::continuation, Http2Frame::end_headers, 1, block.substr(cut));
    for (const char byte : frames) client.write(std::string(1, byte));
    CHECK(client[1].host == "api.example");
    CHECK(client[1].request_ends == 1);
  }
}

TEST_CASE("HTTP/2: in a server the same, the other way round") {
  Http2Seen server;
  Deflater request, response;
  server.read(kHttp2Preface + settings_frame() + headers_frame(1, request(request_headers())) +
              data_frame(1, "{}", kEndStream));
  server.write(settings_frame() + kSettingsAck + headers_frame(1, response(response_headers())) +
               data_frame(1, "data: a\n\n"));
  CHECK(server.parser.requests() == kRead);
  CHECK(server[1].host == "api.example");
  CHECK(server[1].request_ends == 1);
  CHECK(server[1].type == "text/event-stream");
  CHECK(server[1].body == "data: a\n\n");
  server.read(reset_frame(1));
  CHECK(server[1].end == Http2End::reset_read);
}

TEST_CASE("HTTP/2: a server that sends its SETTINGS before it has read the preface") {
  Http2Seen server(Http2Parser::Start::unknown);
  Deflater request;
  server.write(settings_frame(setting(3, 100)));
  server.read(kHttp2Preface.substr(0, 18));
  server.read(kHttp2Preface.substr(18) + settings_frame());
  server.read(headers_frame(1, request(request_headers())));
  CHECK(server.parser.requests() == kRead);
  CHECK(server[1].host == "api.example");
}

TEST_CASE("HTTP/2: informational responses, trailers, no body") {
  Client client;
  for (const std::uint32_t stream : {1, 3, 5, 7}) client.asks(stream);
  client.answered(1, {{":status", "103"}, {"link", "</a>"}});
  CHECK_FALSE(client[1].status);
  client.answered(1, response_headers("application/json", "429"));
  CHECK(client[1].status == 429);
  CHECK(client[1].type == "application/json");
  client.read(data_frame(1, "{}"));
  client.read(client.head(1, {{"x-checksum", "1"}}, kEndStream));
  CHECK(client[1].body == "{}");
  CHECK(client[1].end == Http2End::complete);
  // An answer to HEAD, and one without content: END_STREAM on the header block.
  client.read(client.head(3, response_headers(), kEndStream));
  CHECK(client[3].status == 200);
  CHECK(client[3].end == Http2End::complete);
  client.read(client.head(5, {{":status", "204"}}, kEndStream));
  CHECK(client[5].status == 204);
  CHECK(client[5].type.empty());
  // What is no status is not taken for one.
  client.answered(7, {{":status", "20x"}, {"content-type", "bad type"}});
  CHECK(client[7].status == 0);
  CHECK(client[7].whole);
  CHECK(client[7].type.empty());
}

TEST_CASE("HTTP/2: the host of a request") {
  Client client;
  client.asks(1, {{":method", "GET"}, {"host", "old.example"}});
  CHECK(client[1].host == "old.example");
  client.asks(3, {{":method", "GET"}, {":authority", "new.example"}, {"host", "old.example"}});
  CHECK(client[3].host == "new.example");
  client.asks(5, {{":method", "GET"}, {":authority", "no host"}});
  CHECK_FALSE(client[5].host);
  client.asks(7, {{":method", "GET"}, {":authority", std::string(256, 'h')}});
  CHECK_FALSE(client[7].host);
  client.asks(9, {{":method", "GET"}, {":authority", std::string(255, 'h')}});
  CHECK(client[9].host == std::string(255, 'h'));
}

TEST_CASE("HTTP/2: resets end a stream, and what was on its way is not a new one") {
  Client client;
  for (const std::uint32_t stream : {1, 3, 5}) {
    client.asks(stream);
    client.answered(stream);
  }
  client.write(reset_frame(1));
  CHECK(client[1].end == Http2End::reset_written);
  client.read(data_frame(1, "data: late\n\n") + data_frame(3, "data: a\n\n"));
  CHECK(client.streams[1].size() == 1);
  CHECK(client[1].body.empty());
  client.read(reset_frame(3));
  CHECK(client[3].end == Http2End::reset_read);
  CHECK(client[3].body == "data: a\n\n");
  CHECK_FALSE(client[5].end);
  client.eof();
  CHECK(client[5].end == Http2End::cut);
  CHECK(client.parser.open_streams() == 0);
}

TEST_CASE("HTTP/2: GOAWAY ends what will not be answered") {
  Client client;
  for (const std::uint32_t stream : {1, 3, 5}) client.asks(stream);
  client.answered(1);
  client.read(goaway(0x7FFFFFFF));
  CHECK_FALSE(client[5].end);
  client.write(goaway(0));  // of pushed streams
  CHECK_FALSE(client[1].end);
  client.read(goaway(3));
  CHECK_FALSE(client[3].end);
  CHECK(client[5].end == Http2End::cut);
  client.read(data_frame(1, "data: a\n\n", kEndStream));
  CHECK(client[1].end == Http2End::complete);
}

TEST_CASE("HTTP/2: pushed streams and frames of unknown types are passed over") {
  Client client;
  client.asks(1);
  client.answered(1);
  // The block of a promise changes the table like any other.
  const Headers promised = {{":method", "GET"}, {":path", "/pushed"}, {"x-promise", "1"}};
  client.read(padded(Http2Frame::push_promise, Http2Frame::end_headers, 1,
                     big_endian(2, 4) + client.response(promised), 3));
  client.read(client.head(2, {{":status", "200"}, {"x-promise", "1"}}, kEndStream));
  CHECK(client[2].whole);
  CHECK(client[2].end == Http2End::complete);
  client.read(frame(0x0C, 0, 0, "origin") + frame(0xF7, 0xFF, 0x7FFFFFFF, std::string(900, 'g')) +
              frame(Http2Frame::priority_update, 0, 0, big_endian(1, 4) + "u=0") +
              frame(Http2Frame::priority, 0, 9, std::string(5, '\1')));
  client.read(data_frame(1, "data: a\n\n"));
  CHECK(client[1].body == "data: a\n\n");
  CHECK_FALSE(client.saw(9));
}

TEST_CASE("HTTP/2: frames as long as SETTINGS_MAX_FRAME_SIZE allows") {
  Client client;
  client.write(settings_frame(setting(1, 0) + setting(5, Http2Frame::kMaxLength)));
  client.asks(1);
  client.answered(1);
  const std::string body(Http2Frame::kMaxLength, 'x');
  const std::string frames = data_frame(1, body, kEndStream);
  for (std::size_t at = 0; at < frames.size(); at += 65536) client.read(frames.substr(at, 65536));
  CHECK(client[1].body.size() == body.size());
  CHECK(client[1].end == Http2End::complete);
}

TEST_CASE("HTTP/2: the size of the header table follows SETTINGS_HEADER_TABLE_SIZE") {
  Client client;
  for (const std::uint32_t size : {0U, 65536U, 100U, 4096U, 1U << 20}) {
    client.write(settings_frame(setting(1, size)));
    client.read(kSettingsAck);
    client.response.change_table_size(size);
    const auto first = client.streams.empty() ? 1U : client.streams.rbegin()->first + 2;
    for (std::uint32_t stream = first; stream < first + 40; stream += 2) {
      client.asks(stream);
      Headers headers = response_headers();
      headers.emplace_back("x-filler", std::string(100, 'f') + std::to_string(stream % 7));
      client.read(client.head(stream, headers, kEndStream));
      REQUIRE(client[stream].whole);
      REQUIRE(client[stream].type == "text/event-stream");
    }
  }
}

TEST_CASE("HTTP/2: another connection in the place of one that ended unseen") {
  Client client;
  client.asks(1);
  client.answered(1);
  Client fresh;
  client.write(kHttp2Preface + settings_frame());
  CHECK(client[1].end == Http2End::cut);
  client.read(settings_frame());
  client.write(headers_frame(1, fresh.request(request_headers("other.example"))));
  CHECK(client[1].host == "other.example");
  client.read(fresh.head(1));
  CHECK(client[1].type == "text/event-stream");
}

TEST_CASE("HTTP/2: how a connection is recognised") {
  const auto guess = [](std::string_view text) {
    return gcause::guess_http2(std::as_bytes(std::span(text)));
  };
  for (std::size_t size = 0; size <= kHttp2Preface.size(); ++size) {
    CHECK(guess(kHttp2Preface.substr(0, size)) == (size < 3 ? Http2Guess::more : Http2Guess::yes));
  }
  const std::string settings = settings_frame(setting(3, 100) + setting(4, 65535));
  for (std::size_t size = 0; size < 9; ++size) {
    CHECK(guess(settings.substr(0, size)) == Http2Guess::more);
  }
  CHECK(guess(settings) == Http2Guess::yes);
  CHECK(guess(settings + window_update(0)) == Http2Guess::yes);
  CHECK(guess(settings_frame()) == Http2Guess::yes);
  CHECK(guess(data_frame(9, "data: a\n\n")) == Http2Guess::yes);
  CHECK(guess("tail of a frame" + data_frame(9, "a") + kPing + data_frame(9, "b")) ==
        Http2Guess::yes);
  // Further behind it takes more than two frames, or two that end with the bytes.
  CHECK(guess("tail" + data_frame(9, "a") + data_frame(9, "b")) == Http2Guess::yes);
  CHECK(guess("tail" + data_frame(9, "a")) == Http2Guess::no);

  const std::string rest(64, 'x');
  for (const std::string& other :
       {std::string("GET / HTTP/1.1\r\nHost: a\r\n\r\n"), std::string("HTTP/1.1 200 OK\r\n"),
        std::string("data: {}\n\ndata: {}\n\n"), std::string("PUT"), std::string("POST / HTTP"),
        bytes_of({0x17, 3, 3, 1, 0}) + rest,        // TLS
        bytes_of({0x81, 5}) + "hello" + rest,       // WebSocket
        bytes_of({0x4A, 0, 0, 0, 0x0A}) + rest,     // MySQL
        bytes_of({0, 0, 0, 0x2A}) + rest,           // a length in front
        bytes_of({0, 0, 0, 8}) + rest, bytes_of({0, 0, 0, 4}) + rest,
        std::string(4096, '\0'), std::string("R\0\0\0\x08\0\0\0\0Z\0\0\0\5I", 15)}) {
    INFO(other.substr(0, 20));
    CHECK(guess(other) == Http2Guess::no);
  }
  // One frame of DATA on stream 0 is an error, and so is one of no length and no purpose.
  CHECK(guess(frame(Http2Frame::data, 0, 0, "x")) == Http2Guess::no);
  CHECK(guess(data_frame(1, "")) == Http2Guess::no);
  CHECK(guess(frame(Http2Frame::ping, 0, 0, "short")) == Http2Guess::no);
}
