// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nghttp2/nghttp2.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "stream/http2_parser.h"

namespace gcause::test {

inline const std::string kHttp2Preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

inline std::string big_endian(std::uint64_t value, int bytes) {
  std::string text;
  for (int shift = 8 * (bytes - 1); shift >= 0; shift -= 8) {
    text += static_cast<char>(value >> shift & 0xFF);
  }
  return text;
}

/// A frame as RFC 9113, 4.1 lays it out.
inline std::string frame(std::uint8_t type, unsigned flags, std::uint32_t stream,
                         const std::string& payload = "") {
  return big_endian(payload.size(), 3) + static_cast<char>(type) + static_cast<char>(flags) +
         big_endian(stream, 4) + payload;
}

inline std::string data_frame(std::uint32_t stream, const std::string& body, unsigned flags = 0) {
  return frame(Http2Frame::data, flags, stream, body);
}

/// With `padding` bytes of padding, and a byte that says so.
inline std::string padded(std::uint8_t type, unsigned flags, std::uint32_t stream,
                          const std::string& content, std::uint8_t padding) {
  return frame(type, flags | Http2Frame::padded, stream,
               static_cast<char>(padding) + content + std::string(padding, '\0'));
}

inline std::string setting(std::uint16_t id, std::uint32_t value) {
  return big_endian(id, 2) + big_endian(value, 4);
}
inline std::string settings_frame(const std::string& settings = "") {
  return frame(Http2Frame::settings, 0, 0, settings);
}
inline const std::string kSettingsAck = frame(Http2Frame::settings, Http2Frame::ack, 0);
inline const std::string kPing = frame(Http2Frame::ping, 0, 0, "data: x\n");
inline std::string window_update(std::uint32_t stream) {
  return frame(Http2Frame::window_update, 0, stream, big_endian(1000, 4));
}
inline std::string reset_frame(std::uint32_t stream, std::uint32_t error = 8) {
  return frame(Http2Frame::rst_stream, 0, stream, big_endian(error, 4));
}
inline std::string goaway(std::uint32_t last) {
  return frame(Http2Frame::goaway, 0, 0, big_endian(last, 4) + big_endian(0, 4) + "bye");
}

using Headers = std::vector<std::pair<std::string, std::string>>;

/// The compressor of one direction of a connection: nghttp2's.
class Deflater {
 public:
  explicit Deflater(std::size_t table = 1U << 20) {
    nghttp2_hd_deflater* deflater = nullptr;
    REQUIRE(nghttp2_hd_deflate_new(&deflater, table) == 0);
    deflater_.reset(deflater);
  }
  void change_table_size(std::size_t bytes) {
    REQUIRE(nghttp2_hd_deflate_change_table_size(deflater_.get(), bytes) == 0);
  }
  std::string operator()(const Headers& headers, bool never_index = false) {
    std::vector<nghttp2_nv> fields;
    for (const auto& [name, value] : headers) {
      fields.push_back({as_bytes(name), as_bytes(value), name.size(), value.size(),
                        static_cast<std::uint8_t>(never_index ? NGHTTP2_NV_FLAG_NO_INDEX : 0)});
    }
    std::string block(nghttp2_hd_deflate_bound(deflater_.get(), fields.data(), fields.size()), 0);
    const auto size = nghttp2_hd_deflate_hd(deflater_.get(), as_bytes(block), block.size(),
                                            fields.data(), fields.size());
    REQUIRE(size >= 0);
    block.resize(static_cast<std::size_t>(size));
    return block;
  }

 private:
  static std::uint8_t* as_bytes(const std::string& text) {
    return reinterpret_cast<std::uint8_t*>(const_cast<char*>(text.data()));
  }
  struct Deleter {
    void operator()(nghttp2_hd_deflater* deflater) const { nghttp2_hd_deflate_del(deflater); }
  };
  std::unique_ptr<nghttp2_hd_deflater, Deleter> deflater_;
};

inline Headers request_headers(const std::string& host = "api.example") {
  return {{":method", "POST"}, {":scheme", "https"}, {":authority", host}, {":path", "/v1"}};
}
inline Headers response_headers(const std::string& type = "text/event-stream",
                                const std::string& status = "200") {
  return {{":status", status}, {"content-type", type}};
}

/// A whole header block in one frame.
inline std::string headers_frame(std::uint32_t stream, const std::string& block,
                                 unsigned flags = 0) {
  return frame(Http2Frame::headers, flags | Http2Frame::end_headers, stream, block);
}

/// What was told of one stream.
struct SeenStream {
  std::optional<std::string> method;
  std::optional<std::string> host;
  int request_ends = 0;
  std::optional<int> status;
  std::string type;
  std::string encoding;
  bool whole = true;
  std::string body;
  std::uint64_t skipped = 0;
  std::optional<Http2End> end;
  bool operator==(const SeenStream&) const = default;
};

/// A parser together with what it tells, checked as it comes.
class Http2Seen : public Http2Handler {
 public:
  explicit Http2Seen(Http2Parser::Start start = Http2Parser::Start::connection_begin)
      : parser(start) {}

  void feed(StreamDirection direction, std::string_view piece) {
    const std::vector<char> copy(piece.begin(), piece.end());
    span_ = std::as_bytes(std::span(copy));
    parser.feed(direction, span_, *this);
    span_ = {};
    fed[static_cast<std::size_t>(direction)] += piece.size();
  }
  void read(std::string_view piece) { feed(StreamDirection::read, piece); }
  void write(std::string_view piece) { feed(StreamDirection::write, piece); }
  bool skip(StreamDirection direction, std::uint64_t count) {
    const bool known = parser.skip(direction, count, *this);
    fed[static_cast<std::size_t>(direction)] += count;
    return known;
  }
  void eof() { parser.on_eof(*this); }

  void on_request(std::uint32_t stream, const Http2RequestHead& head) override {
    auto& seen = open_stream(stream);
    REQUIRE_FALSE(seen.method.has_value());
    seen.method = head.method;
    if (head.host) seen.host = std::string(*head.host);
  }
  void on_request_end(std::uint32_t stream, std::size_t end) override {
    REQUIRE(end <= span_.size());
    ++known(stream).request_ends;
  }
  void on_head(std::uint32_t stream, const Http2ResponseHead& head) override {
    auto& seen = open_stream(stream);
    REQUIRE_FALSE(seen.status.has_value());
    seen.status = head.status;
    seen.type = head.content_type;
    seen.encoding = head.content_encoding;
    seen.whole = head.whole;
    REQUIRE((head.seen || (!head.whole && head.status == 0 && head.content_type.empty())));
  }
  void on_body(std::uint32_t stream, std::span<const std::byte> piece, std::size_t end) override {
    REQUIRE_FALSE(piece.empty());
    REQUIRE(end <= span_.size());
    REQUIRE(piece.data() + piece.size() == span_.data() + end);  // no copy, right place
    auto& seen = known(stream);
    REQUIRE(seen.status.has_value());
    seen.body.append(reinterpret_cast<const char*>(piece.data()), piece.size());
    saw_body(stream, end - piece.size(), piece.size());
  }
  void on_body_skipped(std::uint32_t stream, std::uint64_t count) override {
    REQUIRE(known(stream).status.has_value());
    known(stream).skipped += count;
  }
  void on_end(std::uint32_t stream, Http2End end) override { known(stream).end = end; }

  /// What was told of a stream up to now, or of the one before that had the same number.
  const SeenStream& operator[](std::uint32_t stream) const {
    const auto found = streams.find(stream);
    REQUIRE(found != streams.end());
    return found->second.back();
  }
  bool saw(std::uint32_t stream) const { return streams.contains(stream); }

  Http2Parser parser;
  std::map<std::uint32_t, std::vector<SeenStream>> streams;
  std::uint64_t fed[2] = {0, 0};  ///< bytes before the call at hand, by StreamDirection

 protected:
  /// `size` bytes of a body at `at` of the fed span.
  virtual void saw_body(std::uint32_t, std::size_t /*at*/, std::size_t /*size*/) {}

 private:
  SeenStream& open_stream(std::uint32_t stream) {
    auto& all = streams[stream];
    if (all.empty() || all.back().end) all.emplace_back();
    return all.back();
  }
  SeenStream& known(std::uint32_t stream) {
    REQUIRE(streams.contains(stream));
    REQUIRE_FALSE(streams[stream].back().end.has_value());
    return streams[stream].back();
  }

  std::span<const std::byte> span_;
};

}  // namespace gcause::test
