// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/http1_parser.h"
#include "stream/sse_parser.h"

namespace gcause::test {

using Strings = std::vector<std::string>;

struct Response {
  int status = 0;
  std::string type;
  std::string encoding;
  bool chunked = false;
  std::optional<std::uint64_t> length;
  bool close = false;
  std::string body;
  std::uint64_t skipped = 0;
  Strings events;                       // data of the body's SSE events, if it is an event stream
  std::vector<std::size_t> event_ends;  // in all fed bytes
  std::optional<bool> complete;
  bool operator==(const Response&) const = default;
};

// A connection as the stream stage sees it: responses, and the events of those that are SSE.
class Connection final : public Http1ResponseHandler {
 public:
  explicit Connection(
      Http1ResponseParser::Start start = Http1ResponseParser::Start::connection_begin)
      : parser(start) {}

  void feed(std::string_view piece) {
    const std::vector<char> copy(piece.begin(), piece.end());
    span_ = std::as_bytes(std::span(copy));
    parser.feed(span_, *this);
    fed_ += piece.size();
  }
  void eof() { parser.on_eof(*this); }
  void gap() { parser.on_gap(*this); }
  bool skip(std::uint64_t count) { return parser.skip(count, *this); }

  void on_head(const ResponseHead& head) override {
    REQUIRE((responses.empty() || responses.back().complete.has_value()));
    Response response;
    response.status = head.status;
    response.type = head.content_type;
    response.encoding = head.content_encoding;
    response.chunked = head.chunked;
    response.length = head.content_length;
    response.close = head.close;
    responses.push_back(response);
    sse_.reset();
  }

  void on_body(std::span<const std::byte> piece, std::size_t end) override {
    REQUIRE_FALSE(piece.empty());
    REQUIRE(end <= span_.size());
    REQUIRE(piece.data() + piece.size() == span_.data() + end);  // no copy, right place
    Response& response = current();
    response.body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    if (response.type != "text/event-stream") return;
    const std::size_t begin = fed_ + end - piece.size();
    sse_.feed(piece, [&](const SseParser::Event& event) {
      response.events.emplace_back(event.data);
      response.event_ends.push_back(begin + event.end);
    });
  }

  void on_body_skipped(std::uint64_t count) override {
    current().skipped += count;
    sse_.skip(count);
  }

  void on_end(bool complete) override { current().complete = complete; }

  Http1ResponseParser parser;
  std::vector<Response> responses;

 private:
  Response& current() {
    REQUIRE_FALSE(responses.empty());
    REQUIRE_FALSE(responses.back().complete.has_value());
    return responses.back();
  }

  SseParser sse_;
  std::span<const std::byte> span_;
  std::size_t fed_ = 0;
};

inline const std::string kSseHead = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n";
inline const std::string kChunkedHead = kSseHead + "Transfer-Encoding: chunked\r\n\r\n";

}  // namespace gcause::test
