// SPDX-License-Identifier: Apache-2.0
//
// Event streams in HTTP/2 connections, from reads and writes to the timeline.
#include <catch2/catch_test_macros.hpp>
#include <cerrno>
#include <initializer_list>
#include <string>
#include <vector>

#include "http2_test_support.h"
#include "stream_test_support.h"

using namespace gcause;
using namespace gcause::test;

namespace {

constexpr unsigned kEndStream = Http2Frame::end_stream;

/// A client of one HTTP/2 connection, over TLS or plain.
class H2Client : public Machine {
 public:
  explicit H2Client(bool tls) : tls_(tls) { seen(); }

  void gets(const std::string& bytes, Ns at) {
    if (tls_) {
      tls_reads(bytes, at - 5, at);
    } else {
      reads(bytes, at);
    }
  }
  void puts(const std::string& bytes, Ns at) {
    if (tls_) {
      tls_writes(bytes, at);
    } else {
      writes(bytes, at);
    }
  }
  void connects(Ns at) {
    puts(kHttp2Preface + settings_frame(), at);
    gets(settings_frame() + kSettingsAck, at + 1);
  }
  std::string request(std::uint32_t stream, unsigned flags = kEndStream) {
    return headers_frame(stream, request_(request_headers()), flags);
  }
  std::string head(std::uint32_t stream, const std::string& type = "text/event-stream") {
    return headers_frame(stream, response_(response_headers(type)));
  }
  /// Of several streams, in this order: the compressors' state depends on it.
  std::string requests(std::initializer_list<std::uint32_t> streams) {
    std::string all;
    for (const auto stream : streams) all += request(stream);
    return all;
  }
  std::string heads(std::initializer_list<std::uint32_t> streams) {
    std::string all;
    for (const auto stream : streams) all += head(stream);
    return all;
  }
  /// Both compressors have seen what a request and its response hold.
  void warm_up() {
    request(1);
    head(1);
  }

 private:
  bool tls_;
  Deflater request_, response_;
};

std::string chunk(std::uint32_t stream, const std::string& data, unsigned flags = 0) {
  return data_frame(stream, event(data), flags);
}

}  // namespace

TEST_CASE("HTTP/2 streams: two at a time, over TLS and plain") {
  for (const bool tls : {true, false}) {
    H2Client client(tls);
    client.connects(100);
    client.puts(client.request(1, 0), 200);
    client.puts(data_frame(1, "{}", kEndStream), 210);
    client.puts(client.request(3), 220);
    client.gets(client.heads({1, 3}), 300);
    client.gets(chunk(1, "a") + kPing + chunk(3, "b"), 400);
    client.gets(chunk(3, "c"), 500);
    client.gets(chunk(1, "[DONE]", kEndStream), 600);
    client.gets(data_frame(3, "", kEndStream), 700);
    const auto streams = client.streams();
    REQUIRE(streams.size() == 2);
    for (const auto& stream : streams) {
      CHECK(stream.protocol == StreamProtocol::h2);
      CHECK(stream.tls == tls);
      CHECK(stream.direction == StreamDirection::read);
      CHECK(stream.host == "api.example");
      CHECK(stream.begin == 300);
      if (!tls) CHECK(stream.peer == "10.0.0.1:80");
    }
    CHECK(streams[0].request_end == 210);
    CHECK(streams[1].request_end == 220);
    const auto chunks = client.chunks();
    REQUIRE(chunks.size() == 3);
    CHECK(chunks[0].stream == streams[0].id);
    CHECK(chunks[1].stream == streams[1].id);
    CHECK(chunks[2].stream == streams[1].id);
    CHECK(chunks[2].index == 1);
    CHECK(client.read_times() == std::vector<Ns>{400, 400, 500});
    const auto ends = client.ends();
    REQUIRE(ends.size() == 2);
    CHECK(ends[0].end == StreamEnd::done);
    CHECK(ends[0].comments == 1);
    CHECK(ends[1].end == StreamEnd::done);
    CHECK(ends[1].at == 700);
    CHECK(ends[1].bytes == 2 * event("b").size());
  }
}

TEST_CASE("HTTP/2 streams: arrivals go by the position of each chunk in the read") {
  const std::string first = padded(Http2Frame::data, 0, 1, event("a"), 100);
  const std::string second = chunk(3, "b"), third = chunk(1, "c");
  Machine exact;
  exact.seen();
  Deflater request, response;
  std::string requests = kHttp2Preface, heads = settings_frame();
  for (const std::uint32_t stream : {1, 3}) {
    requests += headers_frame(stream, request(request_headers()), kEndStream);
    heads += headers_frame(stream, response(response_headers()));
  }
  exact.writes(requests, 100);
  exact.arrives(heads.size(), 150);
  exact.reads(heads, 200);
  exact.arrives(first.size(), 310);
  exact.arrives(second.size(), 320);
  exact.arrives(third.size(), 330);
  exact.reads_in_pieces(first + second + third, 7, 400);
  CHECK(exact.arrivals() == std::vector<Ns>{310, 320, 330});
  CHECK(exact.read_times() == std::vector<Ns>{400, 400, 400});
}

TEST_CASE("HTTP/2 streams: recognised however its first bytes are cut") {
  const std::string start = kHttp2Preface + settings_frame(setting(4, 65535));
  for (std::size_t cut = 1; cut < 40; ++cut) {
    INFO("pieces of " << cut);
    H2Client client(true);
    const std::string asked = start + client.request(1);
    for (std::size_t at = 0; at < asked.size(); at += cut) client.puts(asked.substr(at, cut), 100);
    const std::string answer =
        settings_frame() + client.head(1) + chunk(1, "a") + chunk(1, "b", kEndStream);
    for (std::size_t at = 0; at < answer.size(); at += cut) client.gets(answer.substr(at, cut), 200);
    REQUIRE(client.streams().size() == 1);
    CHECK(client.streams()[0].host == "api.example");
    CHECK(client.chunks().size() == 2);
    CHECK(client.ends().size() == 1);
  }
}

TEST_CASE("HTTP/2 streams: attached in the middle of fifty") {
  for (const bool tls : {true, false}) {
    H2Client client(tls);
    client.warm_up();
    constexpr std::uint32_t kStreams = 50;
    for (int round = 0; round < 3; ++round) {
      for (std::uint32_t i = 0; i < kStreams; ++i) {
        client.gets(chunk(2 * i + 1, "token"), 1000 * (round + 1) + i);
      }
      client.puts(window_update(0), 1000 * (round + 1) + 900);
    }
    CHECK(client.streams().size() == kStreams);
    CHECK(client.chunks().size() == 3 * kStreams);
    for (const auto& stream : client.streams()) {
      CHECK(stream.protocol == StreamProtocol::h2);
      CHECK_FALSE(stream.host);
      CHECK_FALSE(stream.request_end);
      CHECK(stream.begin < 2000);
    }
    for (std::uint32_t i = 0; i < kStreams; ++i) {
      client.gets(data_frame(2 * i + 1, "", kEndStream), 9000);
    }
    CHECK(client.ends().size() == kStreams);
    // The next request is of a connection that is known by now, but for its table of fields.
    client.puts(client.request(2 * kStreams + 1), 10'000);
    client.gets(client.head(2 * kStreams + 1) + chunk(2 * kStreams + 1, "a"), 11'000);
    REQUIRE(client.streams().size() == kStreams + 1);
    CHECK(client.streams().back().request_end == 10'000);
    CHECK(client.chunks().size() == 3 * kStreams + 1);
  }
}

TEST_CASE("HTTP/2 streams: in the middle nothing is taken for a stream that is none") {
  H2Client client(true);
  client.warm_up();
  client.gets(data_frame(1, "{\"data\": 1}\n\n"), 100);
  client.gets(data_frame(3, "\x1f\x8b\x08 data: x\n\n"), 110);
  client.gets(data_frame(5, "<p>data: x</p>\n\n"), 120);
  client.puts(client.request(7), 130);
  client.gets(client.head(7), 140);  // its type is in the table that was missed
  client.gets(data_frame(7, "{\"choices\": []}\n\n"), 150);
  client.puts(client.request(9), 160);
  client.gets(client.head(9, "text/plain"), 170);
  client.gets(chunk(9, "x"), 180);
  client.gets(data_frame(9, "", kEndStream), 190);
  CHECK(client.streams().empty());
  // The rest of an event is no beginning of one.
  client.gets(data_frame(11, "ata: x\n\n"), 200);
  client.gets(chunk(1, "y"), 210);
  CHECK(client.streams().size() == 1);
  CHECK(client.chunks().size() == 1);
}

TEST_CASE("HTTP/2 streams: how they end") {
  const auto ended = [](auto how) {
    H2Client client(false);
    client.connects(100);
    client.puts(client.requests({1, 3}), 200);
    client.gets(client.heads({1, 3}), 300);
    client.gets(chunk(1, "a") + chunk(3, "b"), 400);
    how(client);
    std::vector<StreamEnd> ends;
    for (const auto& end : client.ends()) ends.push_back(end.end);
    return ends;
  };
  using Ends = std::vector<StreamEnd>;
  CHECK(ended([](H2Client& client) { client.gets(reset_frame(1), 500); }) ==
        Ends{StreamEnd::reset});
  CHECK(ended([](H2Client& client) { client.puts(reset_frame(1), 500); }) ==
        Ends{StreamEnd::truncated});
  CHECK(ended([](H2Client& client) {
          client.gets(chunk(1, "[DONE]"), 500);
          client.puts(reset_frame(1), 600);
        }) == Ends{StreamEnd::done});
  CHECK(ended([](H2Client& client) { client.gets(goaway(1), 500); }) ==
        Ends{StreamEnd::truncated});
  CHECK(ended([](H2Client& client) { client.fails(0, 500); }) ==
        Ends{StreamEnd::truncated, StreamEnd::truncated});
  CHECK(ended([](H2Client& client) { client.fails(-ECONNRESET, 500); }) ==
        Ends{StreamEnd::reset, StreamEnd::reset});
  CHECK(ended([](H2Client& client) { client.fails(-ETIMEDOUT, 500); }) ==
        Ends{StreamEnd::timeout, StreamEnd::timeout});
  CHECK(ended([](H2Client& client) { client.tracker.finish(500); }) ==
        Ends{StreamEnd::open, StreamEnd::open});
  CHECK(ended([](H2Client& client) { client.closed(500, true); }) ==
        Ends{StreamEnd::truncated, StreamEnd::truncated});
}

TEST_CASE("HTTP/2 streams: bytes that could not be copied") {
  H2Client client(false);
  client.connects(100);
  // Of a long request only the beginning is copied.
  const std::string call = client.request(1, 0) + data_frame(1, std::string(9000, 'p')) +
                           data_frame(1, std::string(9000, 'p'), kEndStream);
  const std::string copied = call.substr(0, 2048);
  auto io = client.io_at(200, Direction::write, copied);
  io.result = static_cast<std::int64_t>(call.size());
  client.tracker.io(io);
  client.puts(client.request(3), 210);
  client.gets(client.heads({1, 3}) + chunk(1, "a") + chunk(3, "b"), 300);
  REQUIRE(client.streams().size() == 2);
  CHECK(client.streams()[0].host == "api.example");
  CHECK(client.streams()[0].request_end == 200);
  CHECK(client.streams()[1].host == "api.example");
  CHECK(client.streams()[1].request_end == 210);
  // A read that nobody told of lay in a body.
  const std::string rest = chunk(1, std::string(500, 'x'));
  client.gets(rest.substr(0, 100), 400);
  client.passes(rest.size() - 100);
  client.gets(chunk(1, "c") + chunk(3, "d"), 500);
  CHECK(client.ends().empty());
  CHECK(client.chunks().size() == 4);  // the end of the event was not seen, but that of the next
  // One that nobody told of took frames with it.
  client.passes(1000);
  client.gets(chunk(1, "e") + chunk(3, "f"), 600);
  REQUIRE(client.ends().size() == 2);
  CHECK(client.ends()[0].end == StreamEnd::truncated);
  CHECK(client.streams().size() == 4);
}

TEST_CASE("HTTP/2 streams: a connection of which the kernel copied a download only in part") {
  for (const bool ends_in_copy : {false, true}) {
    H2Client client(false);
    client.connects(100);
    client.puts(client.request(1), 200);
    std::string download = client.head(1, "application/octet-stream");
    for (int i = 0; i < 64; ++i) download += data_frame(1, std::string(16384, '\n'));
    const std::string end = data_frame(1, "", kEndStream);
    if (!ends_in_copy) download += end;
    constexpr std::size_t kRead = 65536;
    Ns at = 300;
    for (std::size_t from = 0; from < download.size(); from += kRead) {
      const auto bytes = download.substr(from, kRead);
      client.reads_partly(bytes, from < 4 * kRead ? bytes.size() : 0, at++);
    }
    CHECK(client.tracker.take_streaming().empty());
    // Asked again, it is copied again.
    client.puts(window_update(0) + client.request(3), 1000);
    if (ends_in_copy) client.gets(end, 1050);
    client.gets(client.head(3) + chunk(3, "a"), 1100);
    client.gets(chunk(3, "b"), 1200);
    client.gets(data_frame(3, "", kEndStream), 1300);
    REQUIRE(client.streams().size() == 1);
    CHECK(client.streams()[0].host == "api.example");
    CHECK(client.streams()[0].request_end == 1000);
    CHECK(client.read_times() == std::vector<Ns>{1100, 1200});
    REQUIRE(client.ends().size() == 1);
    CHECK(client.ends()[0].end == StreamEnd::done);
    CHECK(client.ends()[0].at == 1300);
  }
}

TEST_CASE("HTTP/2 streams: under lost records no head is decoded by what may be missing") {
  H2Client client(true);
  client.connects(100);
  client.puts(client.request(1), 200);
  client.gets(client.head(1) + data_frame(1, "", kEndStream), 300);
  client.head(3, "text/plain");  // its record is lost
  client.tracker.records_lost();
  client.puts(client.request(5), 400);
  client.gets(client.head(5, "text/plain") + data_frame(5, "data: no event\n", kEndStream), 500);
  CHECK(client.streams().size() == 1);
}

TEST_CASE("HTTP/2 streams: an upgrade from HTTP/1.1") {
  H2Client client(false);
  client.writes("GET / HTTP/1.1\r\nHost: a\r\nUpgrade: h2c\r\nConnection: Upgrade\r\n\r\n", 100);
  client.reads("HTTP/1.1 101 Switching Protocols\r\nUpgrade: h2c\r\n\r\n", 200);
  client.puts(kHttp2Preface + settings_frame(), 300);
  client.gets(settings_frame(), 310);
  client.gets(client.head(1) + chunk(1, "a"), 400);
  REQUIRE(client.streams().size() == 1);
  CHECK(client.streams()[0].protocol == StreamProtocol::h2);
  CHECK(client.chunks().size() == 1);
}

TEST_CASE("HTTP/2 streams: what the kernel side is told of a connection") {
  H2Client client(true);
  client.connects(100);
  client.puts(client.requests({1, 3}), 200);
  client.gets(client.head(1), 300);
  auto changes = client.tracker.take_streaming();
  REQUIRE(changes.size() == 1);
  CHECK(changes[0].reads);
  client.gets(client.head(3) + data_frame(1, "", kEndStream), 400);
  CHECK(client.tracker.take_streaming().empty());
  client.gets(data_frame(3, "", kEndStream), 500);
  changes = client.tracker.take_streaming();
  REQUIRE(changes.size() == 1);
  CHECK_FALSE(changes[0].reads);
}

TEST_CASE("HTTP/2 streams: a HEAD request has no stream") {
  Machine client;
  client.seen();
  Deflater request, response;
  client.writes(kHttp2Preface + headers_frame(1, request({{":method", "HEAD"}}), kEndStream), 100);
  client.reads(settings_frame() + headers_frame(1, response(response_headers()), kEndStream), 200);
  CHECK(client.streams().empty());
}

TEST_CASE("HTTP/2 streams: a server writes two at a time, over TLS and plain") {
  for (const bool tls : {true, false}) {
    H2Client server(tls);
    server.gets(kHttp2Preface + settings_frame(), 100);
    server.puts(settings_frame() + kSettingsAck, 101);
    server.gets(server.requests({1, 3}), 200);
    server.woke = 290;
    server.puts(server.heads({1, 3}), 300);
    auto changes = server.tracker.take_streaming();
    REQUIRE(changes.size() == 1);
    CHECK(changes[0].writes);
    CHECK_FALSE(changes[0].reads);
    server.woke = 390;
    server.puts(chunk(1, "a") + chunk(3, "b"), 400);
    server.gets(window_update(0), 450);
    server.woke = 480;
    server.puts(chunk(3, "c"), 500);
    server.puts(chunk(1, "[DONE]", kEndStream), 600);
    server.puts(data_frame(3, "", kEndStream), 700);
    const auto streams = server.streams();
    REQUIRE(streams.size() == 2);
    for (const auto& stream : streams) {
      CHECK(stream.protocol == StreamProtocol::h2);
      CHECK(stream.direction == StreamDirection::write);
      CHECK(stream.host == "api.example");
      CHECK(stream.request_end == 200);
      CHECK(stream.begin == 300);
    }
    const auto chunks = server.chunks();
    REQUIRE(chunks.size() == 3);
    CHECK(chunks[2].stream == streams[1].id);
    CHECK(chunks[2].index == 1);
    CHECK(server.read_times() == std::vector<Ns>{400, 400, 500});
    CHECK(chunks[0].arrival == 390);
    CHECK(chunks[2].arrival == 480);
    const auto ends = server.ends();
    REQUIRE(ends.size() == 2);
    CHECK(ends[0].end == StreamEnd::done);
    CHECK(ends[1].end == StreamEnd::done);
    changes = server.tracker.take_streaming();
    REQUIRE(changes.size() == 1);
    CHECK_FALSE(changes[0].writes);
  }
}

TEST_CASE("HTTP/2 streams: a client that has asked for all does not end what a server writes") {
  H2Client server(false);
  server.gets(kHttp2Preface + settings_frame() + server.request(1), 200);
  server.puts(settings_frame() + server.head(1), 300);
  server.fails(0, 350);
  CHECK(server.ends().empty());
  server.puts(chunk(1, "a"), 400);
  server.write_fails(EPIPE, 500);
  REQUIRE(server.ends().size() == 1);
  CHECK(server.ends()[0].end == StreamEnd::reset);
  CHECK(server.chunks().size() == 1);
}
