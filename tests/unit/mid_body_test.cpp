// SPDX-License-Identifier: Apache-2.0
#include "stream/mid_body.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>

#include "http1_test_support.h"

namespace gcause {
namespace {

using test::Connection;
using test::kSseHead;
using test::Strings;

const std::string kOther =
    "HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Length: 1\r\n\r\nx";

TEST_CASE("an event at the start of a read is a body without framing, once it is whole") {
  for (const std::string text :
       {"data: x\n\n", "data:x\r\n\r\n", "event: ping\ndata: {}\n\n", "id: 7\rdata: x\r\r",
        ": keep-alive\n\n", "retry: 10\n\ndata: half"}) {
    CAPTURE(text);
    CHECK(match_mid_body(text) == MidBody::plain);
  }
  for (const std::string text :
       {"", "data: half", "data: x\n", "datum: x\n\n", "{\"data\": 1}\n\n", " data: x\n\n",
        "GET / HTTP/1.1\r\n\r\n", "HTTP/1.1 200 OK\r\n\r\n"}) {
    CAPTURE(text);
    CHECK(match_mid_body(text) == MidBody::no);
  }
}

TEST_CASE("a chunk with an event in it is a chunked body") {
  for (const std::string text :
       {"9\r\ndata: x\n\n\r\n", "0009\r\ndata: x\n\n\r", "9;ext=1\r\ndata: x\n\n",
        "9 \r\ndata: x\n\n\r\n9\r\n", "\r\n9\r\ndata: x\n\n\r\n", "FFFF\r\ndata: a part",
        "3\r\n:\n\n\r\n"}) {
    CAPTURE(text);
    CHECK(match_mid_body(text) == MidBody::chunked);
  }
  for (const std::string text :
       {"0\r\n\r\n", "9\r\n", "9\r\n{\"a\":1}\n\r\n", "8\r\ndata: x\n\n\r\n", "9data: x\n\n",
        "\r\ndata: x\n\n", "9\ndata: x\n\n", "100000000\r\ndata: x\n\n", "-9\r\ndata: x\n\n",
        "0x9\r\ndata: x\n\n"}) {
    CAPTURE(text);
    CHECK(match_mid_body(text) == MidBody::no);
  }
}

TEST_CASE("a running event stream is taken up at a read that begins with an event") {
  Connection connection(Http1ResponseParser::Start::unknown);
  connection.feed("lf of an event\n\n\r\n");
  CHECK(connection.responses.empty());
  connection.feed("b\r\ndata: one\n\n\r\n");
  connection.feed("b\r\ndata: two\n\n\r\n0\r\n\r\n");
  REQUIRE(connection.responses.size() == 1);
  CHECK(connection.responses[0].status == 0);
  CHECK(connection.responses[0].chunked);
  CHECK(connection.responses[0].events == Strings{"one", "two"});
  CHECK(connection.responses[0].complete == true);
  connection.feed(kOther);
  CHECK(connection.responses.size() == 2);
}

TEST_CASE("a stream taken up at an event behind a boundary is framed at the next chunk") {
  Connection connection(Http1ResponseParser::Start::unknown);
  connection.feed("data: one\n\n");
  connection.feed("\r\n18\r\ndata: two\n\ndata: three\n\n");
  CHECK(connection.responses.at(0).events == Strings{"one", "two", "three"});
  CHECK(connection.responses.at(0).complete == std::nullopt);
  connection.feed("\r\n0\r\n\r\n");
  CHECK(connection.responses.at(0).complete == true);
}

TEST_CASE("a stream taken up without framing ends at the next response, or with the connection") {
  Connection next(Http1ResponseParser::Start::unknown);
  next.feed("data: one\n\n");
  next.feed(kOther);
  CHECK(next.responses.at(0).complete == false);
  CHECK(next.responses.at(1).complete == true);
  Connection over(Http1ResponseParser::Start::unknown);
  over.feed("data: one\n\n");
  over.eof();
  CHECK(over.responses.at(0).complete == true);
}

TEST_CASE("only an event stream goes on behind a gap") {
  Connection stream;
  stream.feed(kSseHead + "\r\ndata: a\n\n");
  stream.gap();
  stream.feed("data: b\n\n");
  CHECK(stream.responses.size() == 2);
  Connection other;
  other.feed("HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\n\r\ndata: a\n\n");
  other.gap();
  other.feed("data: b\n\n");
  CHECK(other.responses.size() == 1);
}

}  // namespace
}  // namespace gcause
