// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/content_decoder.h"
#include "stream/http1_parser.h"
#include "stream/http2_parser.h"
#include "stream/ndjson_parser.h"
#include "stream/sse_parser.h"

namespace gcause::test {

/// The data of the events of one connection, which the tracker keeps to itself: the same bytes, cut
/// in the same places, through the same parsers.
class CaseContent final : public Http1ResponseHandler, public Http2Handler {
 public:
  explicit CaseContent(bool http2) : http2_(http2) {}

  /// A connection begins. Streams of the one before stay in `streams`.
  void begin();
  void wrote(const std::string& bytes);
  void read(const std::string& bytes);
  void ended();
  /// The data of all events of each stream, in the order in which the streams began.
  const std::vector<std::vector<std::string>>& streams() const { return streams_; }

 private:
  /// One response that streams.
  struct Body {
    std::size_t stream;  ///< index in `streams_`
    bool lines;          ///< JSON, line by line
    std::optional<ContentDecoder> decoder;
    SseParser events = SseParser();
    NdjsonParser ndjson = NdjsonParser();
  };

  void open(std::uint32_t key, std::string_view type, std::string_view codings);
  void add(std::uint32_t key, std::span<const std::byte> piece);
  void skip(std::uint32_t key, std::uint64_t count);

  void on_head(const ResponseHead& head) override {
    open(0, head.content_type, head.content_encoding);
  }
  void on_body(std::span<const std::byte> piece, std::size_t) override { add(0, piece); }
  void on_body_skipped(std::uint64_t count) override { skip(0, count); }
  void on_end(bool) override { bodies_.erase(0); }

  void on_request(std::uint32_t, const Http2RequestHead&) override {}
  void on_request_end(std::uint32_t, std::size_t) override {}
  void on_head(std::uint32_t stream, const Http2ResponseHead& head) override {
    open(stream, head.content_type, head.content_encoding);
  }
  void on_body(std::uint32_t stream, std::span<const std::byte> piece, std::size_t) override {
    add(stream, piece);
  }
  void on_body_skipped(std::uint32_t stream, std::uint64_t count) override { skip(stream, count); }
  void on_end(std::uint32_t stream, Http2End) override { bodies_.erase(stream); }

  bool http2_;
  Http1ResponseParser responses_{Http1ResponseParser::Start::unknown};
  Http2Parser frames_;
  std::map<std::uint32_t, Body> bodies_;  ///< that are open, by HTTP/2's number; 0 in HTTP/1
  std::vector<std::vector<std::string>> streams_;
};

}  // namespace gcause::test
