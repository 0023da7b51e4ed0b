// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "recording/timeline.h"
#include "stream/hpack_decoder.h"
#include "stream/http2_frames.h"

namespace gcause {

/// The head of a request. Fields that could not be decoded are as if they were not there. The views
/// are valid during `on_request` only.
struct Http2RequestHead {
  std::string_view method;               ///< empty: not known
  std::optional<std::string_view> host;  ///< :authority, or Host: 1 to 255 visible ASCII characters
};

/// What the head of a response says about its body. The views are valid during `on_head` only.
struct Http2ResponseHead {
  /// False: it was missed, and nothing below is known. Some of the body may be missing, too.
  bool seen = true;
  int status = 0;                     ///< 200 to 999; 0: not known
  std::string_view content_type;      ///< as in ResponseHead
  std::string_view content_encoding;  ///< as in ResponseHead
  bool has_length = false;            ///< there is a Content-Length
  /// Every field could be decoded: what is empty above was not sent. Otherwise what is there is
  /// right, and what the body is may have to be seen from its bytes.
  bool whole = true;
};

/// How a stream ended.
enum class Http2End : std::uint8_t {
  complete,       ///< the response had its END_STREAM
  reset_read,     ///< RST_STREAM came from the peer
  reset_written,  ///< RST_STREAM came from the process
  cut,            ///< refused by GOAWAY, cut off with the connection, or bytes of it are missing
};

/// Takes what `Http2Parser` finds in the streams of a connection. The calls must not touch the
/// parser, except to ask it.
class Http2Handler {
 public:
  virtual ~Http2Handler() = default;

  /// A request began.
  virtual void on_request(std::uint32_t stream, const Http2RequestHead& head) = 0;

  /// Its last byte has passed; `end` is the index in the fed span just behind it, or 0 if it was
  /// not fed. Where bytes of requests are missing it may have been among them: then this is called
  /// for each that is open, and perhaps once more. The last call counts.
  virtual void on_request_end(std::uint32_t stream, std::size_t end) = 0;

  /// The final head of a response; where it was missed, its body goes on.
  virtual void on_head(std::uint32_t stream, const Http2ResponseHead& head) = 0;

  /// Some of the response's body, without framing and padding: a part of the fed span, never empty.
  /// `end` is the index in the fed span just behind it.
  virtual void on_body(std::uint32_t stream, std::span<const std::byte> piece, std::size_t end) = 0;

  /// `count` bytes of the body passed unseen, behind what `on_body` had; see `skip`.
  virtual void on_body_skipped(std::uint32_t stream, std::uint64_t count) = 0;

  /// The stream is over. Follows `on_request` and `on_head`, always, and once for both.
  virtual void on_end(std::uint32_t stream, Http2End end) = 0;
};

/// Takes the bytes of an HTTP/2 connection that a process reads and those that it writes, each cut
/// anywhere, and finds requests and responses in them (RFC 9113). Either direction may carry the
/// requests: the preface tells, or the first header block that holds a field of one of the two.
///
/// May begin in the middle of a connection, and bytes may be missing. Then frames are searched for
/// (`Http2FrameReader`), header blocks are decoded as far as possible (`HpackDecoder`), and a body
/// whose head was missed is a response with an unknown head.
class Http2Parser : private Http2FrameHandler {
 public:
  static constexpr std::size_t kMaxBlock = 65536;    ///< bytes of one header block, encoded
  static constexpr std::size_t kMaxStreams = 16384;  ///< open at a time; further ones are ignored

  /// Where in the connection's life the first fed byte of each direction stands.
  enum class Start { connection_begin, unknown };

  explicit Http2Parser(Start start = Start::connection_begin);

  /// Parses the next bytes that were moved in one direction.
  void feed(StreamDirection direction, std::span<const std::byte> bytes, Http2Handler& handler);

  /// `count` bytes passed in one direction that cannot be fed. Where they lie wholly in one frame
  /// the framing is still known, and if that carries a body, the body goes on. Otherwise does what
  /// `on_gap` does and returns false.
  bool skip(StreamDirection direction, std::uint64_t count, Http2Handler& handler);

  /// An unknown number of bytes is missing in one direction. Bodies in it end.
  void on_gap(StreamDirection direction, Http2Handler& handler);

  /// Whole frames may be missing in either direction although none seems to be: forgets what later
  /// header blocks are decoded with.
  void on_suspicion();

  /// The connection is over. Every stream ends incomplete.
  void on_eof(Http2Handler& handler);

  /// The direction that carries requests, if that is known.
  std::optional<StreamDirection> requests() const { return requests_; }

  /// Requests without the end of a response, and responses without their end.
  std::size_t open_streams() const { return streams_.size(); }

 private:
  struct Stream {
    StreamDirection responses;  ///< the direction that carries its response
    bool request_over = false;
    bool has_head = false;
  };
  using Streams = std::map<std::uint32_t, Stream>;

  /// The header block that is being gathered in one direction.
  struct Block {
    std::uint32_t stream = 0;  ///< 0: none
    bool of_promise = false;
    bool ends_stream = false;
    bool damaged = false;
    std::string bytes;
  };

  struct Side {
    Http2FrameReader frames;
    HpackDecoder hpack;
    Block block;
    std::array<std::byte, 8> small{};  ///< beginning of a SETTINGS entry, or of GOAWAY
    std::uint8_t small_size = 0;
    bool small_damaged = false;
  };

  struct Fields;

  void on_preface() override;
  void on_frame(const Http2Frame& frame) override;
  void on_content(const Http2Frame& frame, std::span<const std::byte> piece,
                  std::size_t end) override;
  void on_content_skipped(const Http2Frame& frame, std::uint64_t count) override;
  void on_frame_end(const Http2Frame& frame, std::size_t end) override;
  void on_lost() override;
  void on_unframed() override;

  void begin_block(const Http2Frame& frame);
  void add_to_block(std::span<const std::byte> piece);
  void end_block(std::size_t end);
  bool misses_requests(const Block& block) const;
  void take_request(std::uint32_t stream, const Fields& fields, bool ends_stream, std::size_t end);
  void take_response(std::uint32_t stream, const Fields& fields, bool ends_stream);
  void take_undecided(std::uint32_t stream, bool ends_stream);
  void take_reset(std::uint32_t stream);
  void take_small(const Http2Frame& frame, std::span<const std::byte> piece);
  void take_setting();
  void take_goaway();
  void data_ended(std::uint32_t stream, std::size_t end);

  void learn_requests(StreamDirection direction);
  Stream* find(std::uint32_t stream);
  Stream* body_of(std::uint32_t stream);
  Stream* open(std::uint32_t stream, StreamDirection responses);
  bool is_far(std::uint32_t stream) const;
  bool is_over(std::uint32_t stream) const;
  void finish(Streams::iterator stream, Http2End end);
  template <typename Predicate>
  void cut_if(Predicate predicate);
  void note_ended(std::uint32_t stream);
  void restart();

  Side& side() { return sides_[static_cast<std::size_t>(direction_)]; }
  Side& other_side() { return sides_[static_cast<std::size_t>(other(direction_))]; }
  static StreamDirection other(StreamDirection direction) {
    return direction == StreamDirection::read ? StreamDirection::write : StreamDirection::read;
  }

  std::array<Side, 2> sides_;  ///< by StreamDirection
  std::optional<StreamDirection> requests_;
  Streams streams_;
  std::uint32_t newest_request_ = 0;
  /// Streams below may be open without an entry in `streams_`: their begin may have been missed.
  std::uint32_t seen_from_;
  std::array<std::uint32_t, 16> ended_{};  ///< the newest; what was on its way still comes
  std::size_t ended_at_ = 0;

  // Of the call at hand.
  StreamDirection direction_ = StreamDirection::read;
  Http2Handler* handler_ = nullptr;
};

}  // namespace gcause
