// SPDX-License-Identifier: Apache-2.0
#include "stream/http1_parser.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdio>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "http1_test_support.h"
#include "stream/sse_parser.h"

using namespace gcause::test;
using gcause::Http1ResponseParser;
using gcause::SseParser;

namespace {

std::vector<Response> parse(const std::vector<std::string_view>& pieces) {
  Connection connection;
  for (const std::string_view piece : pieces) connection.feed(piece);
  return connection.responses;
}

void require_same_for_all_cuts(std::string_view bytes, const std::vector<Response>& expected) {
  REQUIRE(parse({bytes}) == expected);
  for (std::size_t cut = 1; cut < bytes.size(); ++cut) {
    INFO("cut at " << cut);
    REQUIRE(parse({bytes.substr(0, cut), bytes.substr(cut)}) == expected);
  }
  Connection single;
  for (const char& c : bytes) single.feed({&c, 1});
  REQUIRE(single.responses == expected);
}

std::string chunk_of(std::string_view data) {
  char size[32];
  std::snprintf(size, sizeof size, "%zx\r\n", data.size());
  return size + std::string(data) + "\r\n";
}

std::string length_response(std::string_view type, std::string_view body) {
  return "HTTP/1.1 200 OK\r\nContent-Type: " + std::string(type) +
         "\r\nContent-Length: " + std::to_string(body.size()) + "\r\n\r\n" + std::string(body);
}

}  // namespace

TEST_CASE("A response head is read whatever the case and spacing of its names", "[http1]") {
  const auto heads = parse(
      {"HTTP/1.1 200 OK\r\ncontent-TYPE:Text/Event-Stream ;charset=UTF-8\r\nX: y\r\n"
       "CONTENT-ENCODING: \t GZip\r\nTransfer-encoding:Chunked\r\nconnection: foo, Close\r\n\r\n"});
  REQUIRE(heads.size() == 1);
  CHECK(heads[0].status == 200);
  CHECK(heads[0].type == "text/event-stream");
  CHECK(heads[0].encoding == "gzip");
  CHECK(heads[0].chunked);
  CHECK_FALSE(heads[0].length.has_value());
  CHECK(heads[0].close);
  CHECK_FALSE(heads[0].complete.has_value());
}

TEST_CASE("The end of the connection follows from version and Connection", "[http1]") {
  const auto closes = [](const std::string& line, const std::string& field) {
    return parse({line + "\r\n" + field + "Content-Length: 0\r\n\r\n"}).at(0).close;
  };
  CHECK_FALSE(closes("HTTP/1.1 200 OK", ""));
  CHECK(closes("HTTP/1.1 200 OK", "Connection: close\r\n"));
  CHECK(closes("HTTP/1.0 200 OK", ""));
  CHECK_FALSE(closes("HTTP/1.0 200 OK", "Connection: Keep-Alive\r\n"));
  CHECK(parse({"HTTP/1.1 200\r\n\r\n"}).at(0).close);
}

TEST_CASE("C25: extensions, trailers, odd sizes, and every cut", "[http1]") {
  const std::string body =
      "a;ext=1\r\ndata: hi\n\n\r\n"
      "000A  \r\ndata: yo\n\n\r\n"
      "0\r\nX-Checksum: 1\r\n\r\n";
  const std::string next = kChunkedHead + "10\r\ndata: 012345\r\n\r\n\r\n0\r\n\r\n";
  const std::string all = kChunkedHead + body + next;
  const auto responses = parse({all});
  REQUIRE(responses.size() == 2);
  CHECK(responses[0].events == Strings{"hi", "yo"});
  CHECK(responses[0].body == "data: hi\n\ndata: yo\n\n");
  CHECK(responses[0].complete == true);
  CHECK(responses[0].event_ends.at(0) == kChunkedHead.size() + 19);
  CHECK(responses[1].events == Strings{"012345"});
  CHECK(responses[1].complete == true);
  require_same_for_all_cuts(all, responses);

  Connection pieces;
  for (const std::string_view piece :
       {std::string_view(kChunkedHead), std::string_view("a;ext=1\r\ndata: hi\n\n\r\n"),
        std::string_view("000A  \r\ndata: yo\n\n\r\n"), std::string_view("0\r\n"),
        std::string_view("X-Checksum: 1\r\n")}) {
    pieces.feed(piece);
  }
  CHECK(pieces.parser.in_body());
  pieces.feed("\r\n" + next);
  CHECK_FALSE(pieces.parser.in_body());
  CHECK(pieces.responses == responses);
}

TEST_CASE("Hexadecimal sizes in both cases, bare LF, empty extensions", "[http1]") {
  const std::string data(0x1aF, 'z');
  for (const std::string size : {"1aF", "1AF", "1af", "00000000000000000000000001AF"}) {
    for (const std::string end : {"\r\n", "\n", " \t\r\n", ";\r\n", " ; a=\"b\"\n"}) {
      INFO(size << end);
      const auto responses = parse({"HTTP/1.1 200 OK\nTransfer-Encoding: chunked\n\n" + size + end +
                                    data + "\n0" + end + "\n"});
      REQUIRE(responses.size() == 1);
      CHECK(responses[0].body == data);
      CHECK(responses[0].complete == true);
    }
  }
}

TEST_CASE("Broken chunk framing ends the body and loses the place", "[http1]") {
  for (const std::string bad :
       {"xyz\r\n", "\r\n", ";a\r\n", "-1\r\n", "3\r\nabcd\r\n", "3 4\r\nabc\r\n", "3\rx",
        "3\r\nabc\rx", "123456789012345678\r\n", "0\r\n\rx"}) {
    INFO(bad);
    Connection connection;
    connection.feed(kChunkedHead);
    connection.feed(bad);
    REQUIRE(connection.responses.size() == 1);
    CHECK(connection.responses[0].complete == false);
    CHECK(connection.parser.lost());
    connection.feed(length_response("text/plain", "ok"));
    REQUIRE(connection.responses.size() == 2);
    CHECK(connection.responses[1].body == "ok");
  }
}

TEST_CASE("C26: until close, by length, HTTP/1.0, terse headers", "[http1]") {
  const std::string body = "data: {\"i\":0}\n\ndata: {\"i\":1}\n\n";
  REQUIRE(body.size() == 30);
  const Strings events = {"{\"i\":0}", "{\"i\":1}"};
  for (const std::string head :
       {"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
        "Connection: close\r\n\r\n",
        "HTTP/1.0 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
        "HTTP/1.1 200 OK\r\ncontent-type:text/event-stream\r\n\r\n"}) {
    Connection connection;
    connection.feed(head + body.substr(0, 20));
    connection.feed(body.substr(20));
    CHECK(connection.parser.in_body());
    connection.eof();
    REQUIRE(connection.responses.size() == 1);
    CHECK(connection.responses[0].type == "text/event-stream");
    CHECK(connection.responses[0].close);
    CHECK(connection.responses[0].events == events);
    CHECK(connection.responses[0].complete == true);
  }
  const std::string both = length_response("text/event-stream", body) +
                           length_response("text/event-stream", "data: x\n\n");
  const auto responses = parse({both});
  REQUIRE(responses.size() == 2);
  CHECK(responses[0].length == 30);
  CHECK(responses[0].events == events);
  CHECK(responses[0].complete == true);
  CHECK(responses[1].events == Strings{"x"});
  require_same_for_all_cuts(both, responses);
}

TEST_CASE("An end of file inside a framed body leaves it incomplete", "[http1]") {
  for (const std::string& start :
       {kChunkedHead, kChunkedHead + "5\r\nab", kChunkedHead + "2\r\nab\r\n0\r\n",
        kSseHead + "Content-Length: 5\r\n\r\nabcd"}) {
    Connection connection;
    connection.feed(start);
    connection.eof();
    REQUIRE(connection.responses.size() == 1);
    CHECK(connection.responses[0].complete == false);
    connection.feed(length_response("text/plain", "later"));
    CHECK(connection.responses.size() == 1);
    connection.parser.reset();
    connection.feed(length_response("text/plain", "other connection"));
    CHECK(connection.responses.size() == 2);
  }
  Connection idle;
  idle.feed("HTTP/1.1 200 OK\r\n");
  idle.eof();
  CHECK(idle.responses.empty());
}

TEST_CASE("Lengths: repeated ones must agree, and Transfer-Encoding wins", "[http1]") {
  const auto with = [](const std::string& fields) {
    Connection connection;
    connection.feed("HTTP/1.1 200 OK\r\n" + fields + "\r\n2\r\nabcde");
    return std::pair(connection.responses, connection.parser.lost());
  };
  CHECK(with("Content-Length: 3\r\n").first.at(0).body == "2\r\n");
  CHECK(with("Content-Length: 3, 3\r\nContent-Length: 3\r\n").first.at(0).body == "2\r\n");
  for (const std::string bad : {"3, 4", "+3", "0x3", "3 3", "99999999999999999999"}) {
    INFO(bad);
    const auto [responses, lost] = with("Content-Length: " + bad + "\r\n");
    CHECK(responses.empty());
    CHECK(lost);
  }
  const auto both = with("Content-Length: 3\r\nTransfer-Encoding: gzip, chunked\r\n").first;
  CHECK(both.at(0).body == "ab");
  CHECK(both.at(0).encoding == "gzip");
  CHECK_FALSE(both.at(0).length.has_value());
  const auto not_chunked = with("Content-Length: 3\r\nTransfer-Encoding: gzip\r\n").first;
  CHECK(not_chunked.at(0).body == "2\r\nabcde");
  CHECK(not_chunked.at(0).close);
}

TEST_CASE("Responses without a body", "[http1]") {
  for (const std::string status : {"204 No Content", "304 Not Modified"}) {
    const auto responses = parse({"HTTP/1.1 " + status + "\r\nContent-Length: 9\r\n\r\n" +
                                  length_response("text/plain", "next")});
    REQUIRE(responses.size() == 2);
    CHECK(responses[0].complete == true);
    CHECK(responses[0].body.empty());
    CHECK(responses[1].body == "next");
  }
  Connection head;
  head.parser.expect_no_body(true);
  head.feed("HTTP/1.1 100 Continue\r\n\r\n" + kChunkedHead);
  REQUIRE(head.responses.size() == 1);
  CHECK(head.responses[0].complete == true);
  head.feed(length_response("text/plain", "next"));
  CHECK(head.responses.at(1).body == "next");
  CHECK(parse({length_response("text/plain", "") + length_response("text/plain", "x")}).size() ==
        2);
}

TEST_CASE("Informational responses are passed over", "[http1]") {
  const std::string bytes =
      "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: </a>\r\n"
      "Content-Length: 5\r\n\r\n" +
      kChunkedHead + chunk_of("data: a\n\n") + "0\r\n\r\n";
  const auto responses = parse({bytes});
  REQUIRE(responses.size() == 1);
  CHECK(responses[0].status == 200);
  CHECK(responses[0].events == Strings{"a"});
  require_same_for_all_cuts(bytes, responses);
}

TEST_CASE("Empty lines before a status line are passed over", "[http1]") {
  const std::string one = length_response("text/plain", "a");
  CHECK(parse({"\r\n" + one + "\r\n\r\n" + one}).size() == 2);
}

TEST_CASE("C32: three streams on one connection, terminator and next head in one read", "[http1]") {
  const std::string terminator = "0\r\n\r\n";
  Connection connection;
  std::string carry;
  for (int stream = 0; stream < 3; ++stream) {
    connection.feed(carry + kChunkedHead);
    for (int i = 0; i < 5; ++i) connection.feed(chunk_of("data: " + std::to_string(i) + "\n\n"));
    carry = terminator;
  }
  connection.feed(carry);
  REQUIRE(connection.responses.size() == 3);
  for (const Response& response : connection.responses) {
    CHECK(response.events == Strings{"0", "1", "2", "3", "4"});
    CHECK(response.complete == true);
  }
}

TEST_CASE("C23: every body byte in a chunk of its own", "[http1]") {
  const std::string body = "data: {\"c\":\"\xE4\xBD\xA0\xE5\xA5\xBD\xF0\x9F\xA6\x80\"}\n\n";
  Connection connection;
  connection.feed(kChunkedHead);
  for (const char& c : body) {
    CHECK(connection.responses.at(0).events.empty());
    connection.feed(chunk_of({&c, 1}));
  }
  CHECK(connection.responses.at(0).events == Strings{body.substr(6, 18)});
  connection.feed("0\r\n\r\n");
  CHECK(connection.responses.at(0).complete == true);
}

TEST_CASE("C24: several chunks in one read keep their places", "[http1]") {
  const std::string chunk = chunk_of("data: x\n\n");
  std::string read = kChunkedHead;
  std::vector<std::size_t> ends;
  for (int i = 0; i < 10; ++i) {
    read += chunk;
    ends.push_back(read.size() - 2);
  }
  const auto responses = parse({read});
  CHECK(responses.at(0).event_ends == ends);
}

TEST_CASE("C33: a prefix of each read keeps the framing in step", "[http1]") {
  const std::string event =
      "event: response.completed\ndata: {\"type\":\"response.completed\",\"x\":\"" +
      std::string(200 * 1024, 'y') + "\"}\n\n";
  const std::string read_one_chunk = chunk_of(event);
  constexpr std::size_t kRecord = 16 * 1024;
  constexpr std::size_t kCopied = 1024;
  Connection connection;
  connection.feed(kChunkedHead + chunk_of("event: response.created\ndata: {}\n\n"));
  for (std::size_t at = 0; at < read_one_chunk.size(); at += kRecord) {
    const std::string_view record = std::string_view(read_one_chunk).substr(at, kRecord);
    connection.feed(record.substr(0, kCopied));
    if (record.size() > kCopied) REQUIRE(connection.skip(record.size() - kCopied));
  }
  connection.feed("0\r\n\r\n" + length_response("text/event-stream", "data: z\n\n"));
  REQUIRE(connection.responses.size() == 2);
  CHECK(connection.responses[0].body.size() + connection.responses[0].skipped == event.size() + 34);
  CHECK(connection.responses[0].complete == true);
  CHECK(connection.responses[1].events == Strings{"z"});
}

TEST_CASE("Skipped bytes: in a body, with its line end, and too many", "[http1]") {
  for (std::uint64_t count = 1; count <= 12; ++count) {
    Connection connection;
    const std::string chunk = "a\r\n0123456789\r\n";
    connection.feed(kChunkedHead + chunk.substr(0, 4));
    const std::string rest = chunk.substr(4) + "3\r\nabc\r\n0\r\n\r\n";
    const bool known = connection.skip(count);
    CHECK(known == (count <= 11));
    connection.feed(rest.substr(count));
    CHECK(connection.responses.at(0).complete == known);
    if (!known) continue;
    const std::uint64_t of_body = std::min<std::uint64_t>(count, 9);
    CHECK(connection.responses.at(0).skipped == of_body);
    CHECK(connection.responses.at(0).body == "0" + chunk.substr(4 + of_body, 9 - of_body) + "abc");
  }
  Connection length;
  length.feed(kSseHead + "Content-Length: 5\r\n\r\na");
  CHECK(length.skip(3));
  CHECK(length.skip(1));
  CHECK(length.responses.at(0).complete == true);
  CHECK_FALSE(length.skip(1));
  CHECK(length.parser.lost());
}

TEST_CASE("C35: other streaming bodies make no events", "[http1]") {
  std::string lines;
  for (int i = 0; i < 20; ++i) lines += chunk_of("{\"i\":" + std::to_string(i) + "}\n");
  const std::string head = "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Type: ";
  const auto ndjson = parse({head + "application/x-ndjson\r\n\r\n" + lines + "0\r\n\r\n"});
  CHECK(ndjson.at(0).type == "application/x-ndjson");
  CHECK(ndjson.at(0).complete == true);
  const auto array =
      parse({head + "application/json\r\n\r\n" + chunk_of("[{}\n,") + chunk_of("{}]")});
  CHECK(array.at(0).type == "application/json");
  const auto plain = parse({length_response("text/plain", "data: x\n\n")});
  CHECK(plain.at(0).type == "text/plain");
  for (const auto& responses : {ndjson, array, plain}) CHECK(responses.at(0).events.empty());
}

TEST_CASE("C35: after 101 and behind a CONNECT nothing is HTTP any more", "[http1]") {
  Connection socket;
  socket.feed("HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\n\r\n\x81\x05hello");
  socket.feed(length_response("text/event-stream", "data: x\n\n"));
  socket.gap();
  socket.eof();
  REQUIRE(socket.responses.size() == 1);
  CHECK(socket.responses[0].status == 101);
  CHECK(socket.responses[0].complete == true);
  CHECK(socket.responses[0].body.empty());
  CHECK(socket.parser.upgraded());

  Connection tunnel;
  tunnel.parser.expect_tunnel(true);
  tunnel.feed("HTTP/1.1 200 Connection established\r\n\r\n\x16\x03\x03");
  CHECK(tunnel.parser.upgraded());
  CHECK_FALSE(tunnel.parser.in_body());
  Connection refused;
  refused.parser.expect_tunnel(true);
  refused.feed("HTTP/1.1 407 No\r\nContent-Length: 2\r\n\r\nno" + length_response("a/b", "x"));
  CHECK(refused.responses.size() == 2);
}

TEST_CASE("A lost parser resumes only at the start of a read", "[http1]") {
  const std::string response = length_response("text/plain", "x");
  Connection connection(Http1ResponseParser::Start::unknown);
  CHECK(connection.parser.lost());
  connection.feed("tail of a body\n\n" + response);
  connection.feed("HTTP/1");
  CHECK(connection.responses.empty());
  CHECK(connection.parser.lost());
  connection.feed(response.substr(0, 9));
  connection.feed(response.substr(9));
  CHECK(connection.responses.size() == 1);
  CHECK_FALSE(connection.parser.lost());
}

TEST_CASE("A gap ends the body as incomplete", "[http1]") {
  for (const std::string& start : {kChunkedHead + "5\r\nab", kSseHead + "\r\nab"}) {
    Connection connection;
    connection.feed(start);
    connection.gap();
    CHECK(connection.responses.at(0).complete == false);
    CHECK(connection.parser.lost());
    connection.gap();
    connection.feed(length_response("text/plain", "x"));
    CHECK(connection.responses.at(1).complete == true);
  }
  Connection in_head;
  in_head.feed("HTTP/1.1 200 OK\r\nContent-Le");
  in_head.gap();
  in_head.feed(length_response("text/plain", "x"));
  CHECK(in_head.responses.size() == 1);
}

TEST_CASE("Bytes that are no response lose the place at once", "[http1]") {
  for (const std::string bytes :
       {"\x16\x03\x03", "HTTP/2 200", "HTTQ", "<html>", "http/1.1 200\n"}) {
    Connection connection;
    connection.feed(bytes);
    CHECK(connection.parser.lost());
  }
  for (const std::string line : {"HTTP/1.1200 OK", "HTTP/1.1 20", "HTTP/1.1 2000", "HTTP/1.x 200",
                                 "HTTP/1.1 abc", "HTTP/1.1 000 X"}) {
    INFO(line);
    Connection connection;
    connection.feed(line + "\r\n\r\n");
    CHECK(connection.parser.lost());
    CHECK(connection.responses.empty());
  }
}

TEST_CASE("A status line where a chunk was due shows that the place was lost before", "[http1]") {
  Connection connection;
  connection.feed(kChunkedHead + "3\r\nabc\r\n");
  connection.feed(length_response("text/plain", "x"));
  REQUIRE(connection.responses.size() == 2);
  CHECK(connection.responses[0].complete == false);
  CHECK(connection.responses[1].complete == true);
}

TEST_CASE("A head over the limit is not kept", "[http1]") {
  const std::string field = "X-Filler: " + std::string(1000, 'f') + "\r\n";
  Connection fits;
  Connection over;
  fits.feed("HTTP/1.1 200 OK\r\n");
  over.feed("HTTP/1.1 200 OK\r\n");
  for (int i = 0; i < 60; ++i) fits.feed(field);
  for (int i = 0; i < 70; ++i) over.feed(field);
  fits.feed("Content-Length: 0\r\n\r\n");
  CHECK(fits.responses.size() == 1);
  CHECK(over.parser.lost());
  Connection endless;
  for (int i = 0; i < 1000; ++i) endless.feed(i == 0 ? "HTTP/1.1 " : std::string(100, 'r'));
  CHECK(endless.parser.lost());
}

TEST_CASE("Random chunked bodies, randomly framed and cut, come out whole", "[http1]") {
  std::mt19937 random(771);
  const auto below = [&](std::size_t limit) { return random() % limit; };
  for (int round = 0; round < 3000; ++round) {
    std::string wire;
    Strings bodies;
    for (std::size_t left = 1 + below(3); left > 0; --left) {
      const std::string end = below(4) == 0 ? "\n" : "\r\n";
      wire += "HTTP/1.1 200 OK" + end + "Transfer-Encoding: chunked" + end + end;
      std::string body;
      for (std::size_t chunks = below(6); chunks > 0; --chunks) {
        std::string data;
        for (std::size_t size = 1 + below(40); size > 0; --size) data += "\r\n0;ab:"[below(7)];
        char size[64];
        std::snprintf(size, sizeof size, below(2) == 0 ? "%zx" : "%03zX", data.size());
        const Strings kExtensions = {"", "", " ", ";x", ";x=\"0\"", "\t;y"};
        wire += size + kExtensions[below(6)] + end + data + end;
        body += data;
      }
      wire += below(2) == 0 ? "0" + end : "000;last" + end;
      for (std::size_t trailers = below(3); trailers > 0; --trailers) wire += "T: 0" + end;
      wire += end;
      bodies.push_back(body);
    }
    Connection connection;
    const std::size_t longest = 1 + below(60);
    for (std::size_t at = 0; at < wire.size();) {
      const std::size_t size = below(longest + 1);
      connection.feed(std::string_view(wire).substr(at, size));
      at += std::min(size, wire.size() - at);
    }
    INFO("round " << round << ": <" << wire << ">");
    REQUIRE(connection.responses.size() == bodies.size());
    for (std::size_t i = 0; i < bodies.size(); ++i) {
      REQUIRE(connection.responses[i].body == bodies[i]);
      REQUIRE(connection.responses[i].complete == true);
    }
  }
}
