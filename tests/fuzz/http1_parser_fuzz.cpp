// SPDX-License-Identifier: Apache-2.0
//
// The first byte says how long the pieces are that the rest is fed in, where the connection starts,
// and whether every fifth piece is skipped instead. Calls must come in their order and stay inside
// the fed span. Where nothing is skipped the responses must be those of the reference.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>

#include "http1_reference.h"
#include "stream/http1_parser.h"

namespace {

using gcause::Http1RequestParser;
using gcause::Http1ResponseParser;

void require(bool condition) {
  if (!condition) std::abort();
}

class Checker final : public gcause::Http1ResponseHandler {
 public:
  void fed(std::span<const std::byte> span) {
    span_ = span;
    behind_ = 0;
  }
  bool in_response() const { return in_response_; }
  std::uint64_t body() const { return body_; }

  void on_head(const gcause::ResponseHead& head) override {
    require(!in_response_);
    require(head.status == 0 || head.status == 101 || (head.status >= 200 && head.status <= 999));
    require(head.content_type.size() < Http1ResponseParser::kMaxHead);
    in_response_ = true;
  }
  void on_body(std::span<const std::byte> piece, std::size_t end) override {
    require(in_response_ && !piece.empty() && end <= span_.size() && piece.size() <= end);
    require(piece.data() == span_.data() + end - piece.size());
    require(end - piece.size() >= behind_);
    behind_ = end;
    body_ += piece.size();
  }
  void on_body_skipped(std::uint64_t count) override {
    require(in_response_);
    body_ += count;
  }
  void on_end(bool) override {
    require(in_response_);
    in_response_ = false;
  }

 private:
  std::span<const std::byte> span_;
  std::size_t behind_ = 0;
  bool in_response_ = false;
  std::uint64_t body_ = 0;
};

void check_responses(std::span<const std::byte> bytes, std::uint8_t rule) {
  const std::size_t piece = 1 + rule % 32;
  Checker checker;
  Http1ResponseParser parser((rule & 0x20) != 0 ? Http1ResponseParser::Start::unknown
                                                : Http1ResponseParser::Start::connection_begin);
  parser.expect_no_body((rule & 0xC0) == 0x40);
  parser.expect_tunnel((rule & 0xC0) == 0xC0);
  std::size_t pieces = 0;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    if ((rule & 0x80) != 0 && ++pieces % 5 == 0) {
      const bool known = parser.skip(part.size(), checker);
      require(known || parser.lost());
    } else {
      checker.fed(part);
      parser.feed(part, checker);
    }
    require(parser.in_body() == checker.in_response());
  }
  require(checker.body() <= bytes.size());
  if ((rule & 1) != 0) {
    parser.on_gap(checker);
    require(!checker.in_response());
  }
  parser.on_eof(checker);
  require(!checker.in_response());
}

void check_requests(std::span<const std::byte> bytes, std::size_t piece) {
  Http1RequestParser parser;
  bool open = false;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const auto progress = parser.feed(bytes.subspan(at, std::min(piece, bytes.size() - at)));
    require(!progress.began || !open);
    open = (open || progress.began) && !progress.finished;
    require(!progress.began || !parser.head().method.empty());
    require(!parser.head().host || parser.head().host->size() <= 255);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  check_responses(bytes, data[0]);
  require(gcause::test::agrees_with_reference(
      {reinterpret_cast<const char*>(bytes.data()), bytes.size()}, 1 + data[0] % 32));
  check_requests(bytes, 1 + data[0] % 32);
  check_requests(bytes, std::max<std::size_t>(bytes.size(), 1));
  return 0;
}
