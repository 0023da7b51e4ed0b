// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

namespace gcause {

/// The header of an HTTP/2 frame (RFC 9113, 4.1).
struct Http2Frame {
  std::uint32_t length = 0;  ///< bytes of payload
  std::uint8_t type = 0;
  std::uint8_t flags = 0;
  std::uint32_t stream = 0;  ///< 0: the connection

  static constexpr std::size_t kHeader = 9;  ///< bytes
  static constexpr std::uint32_t kMaxLength = (1U << 24) - 1;

  // RFC 9113, 6; RFC 7838; RFC 8336; RFC 9218.
  enum Type : std::uint8_t {
    data = 0,
    headers = 1,
    priority = 2,
    rst_stream = 3,
    settings = 4,
    push_promise = 5,
    ping = 6,
    goaway = 7,
    window_update = 8,
    continuation = 9,
    altsvc = 10,
    origin = 12,
    priority_update = 16,
  };
  enum Flag : std::uint8_t {
    end_stream = 0x01,
    ack = 0x01,
    end_headers = 0x04,
    padded = 0x08,
    with_priority = 0x20,
  };

  bool has(Flag flag) const { return (flags & flag) != 0; }
};

/// What the bytes of one direction of a connection say about it.
enum class Http2Guess : std::uint8_t {
  no,
  more,  ///< a beginning of what would be HTTP/2: ask again with the bytes behind it
  yes,
};

/// Whether these are bytes of HTTP/2: the client's preface (RFC 9113, 3.4), the SETTINGS frame that
/// a server sends first, or, in the middle of a connection, frames that follow on each other.
/// `bytes` is what one read or write moved. A single frame is believed only at the first byte and
/// where it leaves little to chance; frames further behind need more company.
Http2Guess guess_http2(std::span<const std::byte> bytes);

/// Whether a new connection begins with `bytes`: the whole preface of a client.
bool begins_with_http2_preface(std::span<const std::byte> bytes);

/// Takes what `Http2FrameReader` finds. The calls must not touch the reader.
class Http2FrameHandler {
 public:
  virtual ~Http2FrameHandler() = default;

  /// The client's preface has passed.
  virtual void on_preface() = 0;

  /// The header of a frame has passed. `on_frame_end` or `on_lost` follows.
  virtual void on_frame(const Http2Frame& frame) = 0;

  /// Some of its content: of the payload without padding, its length, priority and promised stream.
  /// Never empty. `end` is the index in the fed span just behind it.
  virtual void on_content(const Http2Frame& frame, std::span<const std::byte> piece,
                          std::size_t end) = 0;

  /// `count` bytes of its content passed unseen.
  virtual void on_content_skipped(const Http2Frame& frame, std::uint64_t count) = 0;

  /// All of its payload has passed; `end` is the index in the fed span just behind it, or 0 where
  /// its last bytes were skipped.
  virtual void on_frame_end(const Http2Frame& frame, std::size_t end) = 0;

  /// It is not known any more where frames begin; what was open will not go on.
  virtual void on_lost() = 0;

  /// Bytes passed of which it is not known to which frame they belong.
  virtual void on_unframed() = 0;
};

/// Takes the bytes of one direction of an HTTP/2 connection, cut anywhere, and finds the frames in
/// them. Keeps no payload. Where the place is *lost*, as it is in the middle of a connection, each
/// fed span is searched for frames that follow on each other.
class Http2FrameReader {
 public:
  /// Parses the next bytes.
  void feed(std::span<const std::byte> bytes, Http2FrameHandler& handler);

  /// `count` bytes passed that cannot be fed. Where they lie wholly in the payload of one frame the
  /// framing is still known. Otherwise does what `gap` does and returns false.
  bool skip(std::uint64_t count, Http2FrameHandler& handler);

  /// An unknown number of bytes is missing.
  void gap(Http2FrameHandler& handler);

  /// The next byte is the first of the connection: a frame begins with it, or the preface. Ignored
  /// where bytes were fed before.
  void expect_begin();

  /// The peer takes frames of this length (RFC 9113, 6.5.2). Only a search for frames needs to
  /// know.
  void allow_length(std::uint32_t bytes);

  bool lost() const { return state_ == State::lost; }

  /// Nothing was fed or skipped yet.
  bool fresh() const { return state_ == State::fresh; }

  /// The next byte is the first of a frame, as far as is known.
  bool between_frames() const { return state_ == State::header && header_size_ == 0; }

 private:
  enum class State : std::uint8_t {
    fresh,   ///< before the first byte, which may be any of a connection
    begin,   ///< before the first byte of the connection, or in the preface
    header,  ///< `header_size_` bytes of a frame header are there
    prefix,  ///< in the fields in front of the content, `prefix_left_` bytes to go
    content,
    padding,
    lost,
  };

  using Bytes = std::span<const std::byte>;

  std::size_t step(Bytes bytes, std::size_t at, Http2FrameHandler& handler);
  std::size_t take_begin(Bytes bytes, std::size_t at, Http2FrameHandler& handler);
  std::size_t take_header(Bytes bytes, std::size_t at, Http2FrameHandler& handler);
  std::size_t take_content(Bytes bytes, std::size_t at, Http2FrameHandler& handler);
  void lose(Http2FrameHandler& handler);
  void begin_payload(std::size_t at, Http2FrameHandler& handler);
  std::size_t take_prefix(std::byte byte, std::size_t at, Http2FrameHandler& handler);
  std::size_t go_on(std::size_t at, Http2FrameHandler& handler);
  std::size_t search(Bytes bytes, std::size_t from, Http2FrameHandler& handler);
  std::uint64_t payload_left() const;

  State state_ = State::fresh;
  std::uint8_t preface_size_ = 0;  ///< bytes of the preface that have passed
  std::uint8_t header_size_ = 0;
  std::uint8_t prefix_left_ = 0;
  std::uint8_t padding_left_ = 0;
  bool padding_unknown_ = false;  ///< its length was skipped: the content counts as skipped, too
  std::array<std::byte, Http2Frame::kHeader> header_{};
  std::uint32_t content_left_ = 0;
  std::uint32_t longest_ = 16384;  ///< RFC 9113, 6.5.2: what every peer takes
  Http2Frame frame_;
};

}  // namespace gcause
