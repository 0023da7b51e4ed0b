// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "stream/http1_parser.h"

using gcause::Http1RequestParser;

namespace {

Http1RequestParser::Progress feed(Http1RequestParser& parser, std::string_view bytes) {
  return parser.feed(std::as_bytes(std::span(bytes)));
}

const std::string kRequest =
    "POST /v1/chat/completions?a=b HTTP/1.1\r\nhost:api.example.test:8080\r\nX: y\r\n\r\n";

}  // namespace

TEST_CASE("A request head is recognised, with its method and host", "[http1]") {
  Http1RequestParser parser;
  const auto progress = feed(parser, kRequest + "{\"body\":1}");
  CHECK(progress.began);
  CHECK(progress.finished);
  CHECK(parser.head().method == "POST");
  CHECK(parser.head().host == "api.example.test:8080");
  CHECK_FALSE(feed(parser, "{\"stream\":true}").began);
  CHECK_FALSE(feed(parser, "GET the book").began);
  CHECK(feed(parser, "HEAD / HTTP/1.0\n\n").finished);
  CHECK(parser.head().method == "HEAD");
  CHECK_FALSE(parser.head().host.has_value());
}

TEST_CASE("A request head cut anywhere is gathered", "[http1]") {
  const std::size_t line = kRequest.find('\n') + 1;
  for (std::size_t cut = 1; cut < kRequest.size(); ++cut) {
    INFO("cut at " << cut);
    Http1RequestParser parser;
    const auto first = feed(parser, kRequest.substr(0, cut));
    CHECK(first.began == (cut >= line));
    CHECK_FALSE(first.finished);
    const auto second = feed(parser, kRequest.substr(cut));
    CHECK(second.began == !first.began);
    CHECK(second.finished);
    CHECK(parser.head().method == "POST");
    CHECK(parser.head().host == "api.example.test:8080");
  }
  Http1RequestParser single;
  int began = 0;
  int finished = 0;
  for (const char& c : kRequest) {
    const auto progress = feed(single, {&c, 1});
    began += progress.began;
    finished += progress.finished;
  }
  CHECK(began == 1);
  CHECK(finished == 1);
}

TEST_CASE("What only looks like a request is body", "[http1]") {
  for (const std::string bytes :
       {"get / HTTP/1.1\r\n\r\n", "GET  / HTTP/1.1\r\n\r\n", "GET / HTTP/2.0\r\n\r\n",
        "PRI * HTTP/2.0\r\n\r\n", "GET /\r\n\r\n", " GET / HTTP/1.1\r\n\r\n",
        "GET / HTTP/1.1 x\r\n\r\n", "\r\nGET / HTTP/1.1\r\n\r\n", "\x16\x03\x01",
        "GET / x HTTP/1.1\n", "ABCDEFGHIJKLMNOPQRSTUVWXYZ / HTTP/1.1\r\n\r\n",
        " / HTTP/1.1\r\n\r\n"}) {
    INFO(bytes);
    Http1RequestParser parser;
    CHECK_FALSE(feed(parser, bytes).began);
    CHECK(feed(parser, kRequest).began);
  }
}

TEST_CASE("A body that ends like a method does not hide the next request", "[http1]") {
  Http1RequestParser parser;
  for (const std::string_view body : {"A", "P", "POST", "GET /x"}) {
    INFO(body);
    CHECK_FALSE(feed(parser, body).began);
    CHECK(feed(parser, kRequest).finished);
  }
  CHECK(parser.head().method == "POST");
  CHECK_FALSE(feed(parser, "GET /x").began);
  CHECK_FALSE(feed(parser, "\r\n").began);
  CHECK_FALSE(feed(parser, "GET /x").began);
  CHECK_FALSE(feed(parser, " POST /v1").began);
  CHECK_FALSE(feed(parser, "POST /v1").began);
  CHECK(feed(parser, " HTTP/1.1\r\n").began);
  CHECK(parser.head().method == "POST");
}

TEST_CASE("Hosts that cannot be shown are left out; the head is bounded", "[http1]") {
  const auto host = [](const std::string& value) {
    Http1RequestParser parser;
    feed(parser, "GET / HTTP/1.1\r\nHost: " + value + "\r\n\r\n");
    return parser.head().host;
  };
  CHECK(host("[::1]:80") == "[::1]:80");
  CHECK(host(std::string(255, 'h')).has_value());
  for (const std::string& bad :
       {std::string(), std::string(256, 'h'), std::string("a b"), std::string("a\x1B[m")}) {
    CHECK_FALSE(host(bad).has_value());
  }
  Http1RequestParser parser;
  CHECK(feed(parser, "GET / HTTP/1.1\r\nHost: h\r\n").began);
  bool finished = false;
  for (int i = 0; i < 40 && !finished; ++i) {
    finished = feed(parser, "X: " + std::string(1000, 'f') + "\r\n").finished;
  }
  CHECK(finished);
  CHECK(parser.head().host == "h");
  CHECK(feed(parser, "GET /" + std::string(20000, 'u')).began == false);
  CHECK(feed(parser, kRequest).began);
}

TEST_CASE("A gap drops the request head that is being gathered", "[http1]") {
  Http1RequestParser parser;
  CHECK(feed(parser, "POST / HTTP/1.1\r\nHost: a\r\n").began);
  parser.on_gap();
  CHECK_FALSE(feed(parser, "\r\n").finished);
  CHECK(feed(parser, kRequest).finished);
}

TEST_CASE("A head says where it ends and how long its body is", "[http1]") {
  const auto body_of = [](const std::string& fields) {
    Http1RequestParser parser;
    const std::string head = "POST / HTTP/1.1\r\n" + fields + "\r\n";
    const auto progress = feed(parser, head + "body");
    CHECK(progress.finished);
    CHECK(progress.end == head.size());
    return parser.head().body;
  };
  CHECK(body_of("") == 0);
  CHECK(body_of("Content-Length: 17\r\n") == 17);
  CHECK(body_of("content-length:0\r\n") == 0);
  CHECK(body_of("Transfer-Encoding: chunked\r\n") == std::nullopt);
  CHECK(body_of("Content-Length: 17\r\nTransfer-Encoding: chunked\r\n") == std::nullopt);
  CHECK(body_of("Content-Length: many\r\n") == std::nullopt);
}

TEST_CASE("The end of a head that is cut is an index in the last span", "[http1]") {
  for (std::size_t cut = 1; cut < kRequest.size(); ++cut) {
    INFO("cut at " << cut);
    Http1RequestParser parser;
    feed(parser, kRequest.substr(0, cut));
    const auto progress = feed(parser, kRequest.substr(cut) + "body");
    CHECK(progress.finished);
    CHECK(progress.end == kRequest.size() - cut);
    CHECK(parser.head().body == 0);
  }
}

TEST_CASE("Of a head beyond the limit nothing is known of the body", "[http1]") {
  Http1RequestParser parser;
  const auto bytes = "POST / HTTP/1.1\r\nContent-Length: 5\r\nX: " + std::string(20'000, 'x');
  const auto progress = feed(parser, bytes);
  CHECK(progress.finished);
  CHECK(progress.end == bytes.size());
  CHECK_FALSE(parser.head().body);
}

TEST_CASE("Only a whole request line begins a request for sure", "[http1]") {
  const auto begins = [](std::string_view text) {
    return Http1RequestParser::begins_request(std::as_bytes(std::span(text)));
  };
  CHECK(begins("GET / HTTP/1.1\r\n"));
  CHECK(begins(kRequest));
  CHECK_FALSE(begins("GET / HTTP/1.1"));
  CHECK_FALSE(begins("HTTP/1.1 200 OK\r\n"));
  CHECK_FALSE(begins(""));
}
