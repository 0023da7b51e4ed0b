// SPDX-License-Identifier: Apache-2.0
//
// The first byte says how long the pieces are that the rest is fed in, where the connection starts
// and whether every fifth piece is skipped; the second which way the pieces go. Calls must come in
// their order and stay inside the fed span, and frames do not depend on the cuts.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <span>
#include <string>

#include "stream/http2_frames.h"
#include "stream/http2_parser.h"

namespace {

using gcause::Http2End;
using gcause::Http2Parser;
using gcause::StreamDirection;

void require(bool condition) {
  if (!condition) std::abort();
}

class Checker final : public gcause::Http2Handler {
 public:
  void fed(std::span<const std::byte> span) {
    span_ = span;
    behind_ = 0;
  }
  std::size_t open() const { return streams_.size(); }
  std::uint64_t body() const { return body_; }

  void on_request(std::uint32_t stream, const gcause::Http2RequestHead& head) override {
    require(!streams_[stream].has_request);
    streams_[stream].has_request = true;
    require(!head.host || (!head.host->empty() && head.host->size() <= 255));
  }
  void on_request_end(std::uint32_t stream, std::size_t end) override {
    require(streams_.contains(stream) && end <= span_.size());
  }
  void on_head(std::uint32_t stream, const gcause::Http2ResponseHead& head) override {
    require(!streams_[stream].has_head);
    streams_[stream].has_head = true;
    require(head.status == 0 || (head.status >= 200 && head.status <= 999));
    require(head.content_type.size() <= 255);
  }
  void on_body(std::uint32_t stream, std::span<const std::byte> piece, std::size_t end) override {
    require(streams_.contains(stream) && streams_[stream].has_head);
    require(!piece.empty() && end <= span_.size() && piece.size() <= end);
    require(piece.data() == span_.data() + end - piece.size());
    require(end - piece.size() >= behind_);
    behind_ = end;
    body_ += piece.size();
  }
  void on_body_skipped(std::uint32_t stream, std::uint64_t count) override {
    require(streams_.contains(stream) && streams_[stream].has_head && count > 0);
    body_ += count;
  }
  void on_end(std::uint32_t stream, Http2End) override { require(streams_.erase(stream) == 1); }

 private:
  struct Stream {
    bool has_request = false;
    bool has_head = false;
  };

  std::map<std::uint32_t, Stream> streams_;
  std::span<const std::byte> span_;
  std::size_t behind_ = 0;
  std::uint64_t body_ = 0;
};

struct Way {
  std::size_t piece;
  Http2Parser::Start start;
  bool skips;
  std::uint8_t directions;  // a bit for each piece, over and over
};

void run(std::span<const std::byte> bytes, Way way) {
  Checker checker;
  Http2Parser parser(way.start);
  std::size_t pieces = 0;
  for (std::size_t at = 0; at < bytes.size(); at += way.piece, ++pieces) {
    const auto part = bytes.subspan(at, std::min(way.piece, bytes.size() - at));
    const bool written = (way.directions >> pieces % 8 & 1) != 0;
    const auto direction = written ? StreamDirection::write : StreamDirection::read;
    if (way.skips && pieces % 5 == 4) {
      parser.skip(direction, part.size(), checker);
    } else {
      checker.fed(part);
      parser.feed(direction, part, checker);
    }
    require(parser.open_streams() == checker.open());
    require(parser.open_streams() <= bytes.size());
    if (pieces == 100) parser.on_suspicion();
  }
  require(checker.body() <= bytes.size());
  parser.on_gap(StreamDirection::read, checker);
  parser.on_eof(checker);
  require(checker.open() == 0 && parser.open_streams() == 0);
}

/// What a reader of frames tells until it is lost.
class Frames final : public gcause::Http2FrameHandler {
 public:
  const std::string& told() const { return told_; }

  void on_preface() override { tell("preface"); }
  void on_frame(const gcause::Http2Frame& frame) override {
    left_ = frame.length;
    tell("frame " + std::to_string(frame.length) + ' ' + std::to_string(frame.type) + ' ' +
         std::to_string(frame.flags) + ' ' + std::to_string(frame.stream) + ':');
  }
  void on_content(const gcause::Http2Frame&, std::span<const std::byte> piece,
                  std::size_t) override {
    require(lost_ || piece.size() <= left_);
    left_ -= piece.size();
    tell({reinterpret_cast<const char*>(piece.data()), piece.size()});
  }
  void on_content_skipped(const gcause::Http2Frame&, std::uint64_t) override { require(false); }
  void on_frame_end(const gcause::Http2Frame&, std::size_t) override { tell("end"); }
  void on_lost() override { lost_ = true; }
  void on_unframed() override { require(lost_); }

 private:
  void tell(const std::string& what) {
    if (!lost_) told_ += what;
  }

  std::string told_;
  bool lost_ = false;
  std::size_t left_ = 0;
};

std::string frames(std::span<const std::byte> bytes, std::size_t piece) {
  Frames told;
  gcause::Http2FrameReader reader;
  reader.expect_begin();
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    reader.feed(bytes.subspan(at, std::min(piece, bytes.size() - at)), told);
  }
  return told.told();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const auto bytes = std::as_bytes(std::span(data + 2, size - 2));
  const std::size_t piece = 1 + data[0] % 64;
  const auto start = (data[0] & 0x40) != 0 ? Http2Parser::Start::unknown
                                           : Http2Parser::Start::connection_begin;
  run(bytes, {piece, start, (data[0] & 0x80) != 0, data[1]});
  require(frames(bytes, piece) == frames(bytes, std::max<std::size_t>(bytes.size(), 1)));
  gcause::guess_http2(bytes);
  return 0;
}
