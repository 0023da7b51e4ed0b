// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recording/timeline.h"
#include "stream/http1_parser.h"
#include "stream/http2_connection.h"
#include "stream/http2_detector.h"
#include "stream/response_body.h"

namespace gcause {

/// The plaintext of one connection: HTTP/1.1 requests in one direction, responses in the other, and
/// the event streams among the responses; or HTTP/2, if it turns out to be that. Writes streams and
/// chunks to the timeline. Which direction is which, and so whether the process is the client or the
/// server, the first bytes tell that are a request or a response.
class Connection : private Http1ResponseHandler {
 public:
  /// `next_stream` is the counter from which streams take their ids.
  Connection(TimelineConsumer& timeline, std::uint64_t& next_stream, std::uint32_t pid, bool tls)
      : timeline_(timeline),
        next_stream_(next_stream),
        pid_(pid),
        tls_(tls),
        response_(Http1ResponseParser::Start::unknown) {}

  void set_peer(const std::optional<std::string>& peer);

  /// Both return the number of chunks that this piece completed.
  std::size_t wrote(const ReadPiece& piece) { return moved(piece, StreamDirection::write); }
  std::size_t read(const ReadPiece& piece) { return moved(piece, StreamDirection::read); }

  /// `count` bytes were read, or written, that could not be copied.
  void skipped(std::uint64_t count, StreamDirection direction, Ns at);

  /// Records were lost: whole reads and writes may be missing without a trace.
  void suspect();

  /// Of `count` bytes, modulo 2^32, nothing was heard: what was read has a gap in its sequence
  /// numbers. A stream goes on where the framing tells that they are part of it.
  void lost(std::uint32_t count, Ns at);

  /// Nothing more can be read or written; a stream in progress ends, as `end` unless its last event
  /// says that it was complete. `closed`: when the peer had closed the connection, if it did.
  void ended(StreamEnd end, Ns at, std::optional<Ns> closed = {});

  /// The direction of the event stream that is in progress, if one is.
  std::optional<StreamDirection> in_stream() const {
    if (http2_) return http2_->in_stream();
    return stream_ && stream_->has_events() ? responses_ : std::nullopt;
  }

  /// The process is the server of this connection, as far as is known.
  bool serves() const {
    return http2_ ? http2_->serves() : responses_ == StreamDirection::write;
  }

 private:
  /// Requests that are kept of a client that sends many at once; with more, the answers are no
  /// longer told apart.
  static constexpr std::size_t kMaxRequests = 256;

  struct Request {
    bool is_head;     ///< its answer has no body
    bool is_connect;  ///< its answer may be a tunnel
    std::optional<std::string> host = {};
    Ns end = 0;  ///< its last byte was written; or arrived, or was read where that is not known
  };

  void on_head(const ResponseHead& head) override;
  void on_body(std::span<const std::byte> piece, std::size_t end) override;
  void on_body_skipped(std::uint64_t count) override;
  void on_end(bool complete) override;

  Http2Connection* as_http2(const ReadPiece& piece, StreamDirection direction);
  std::size_t moved(const ReadPiece& piece, StreamDirection direction);
  bool take_requests(const ReadPiece& piece, StreamDirection direction);
  std::optional<Ns>& asked_at(StreamDirection direction) {
    return asked_at_[static_cast<std::size_t>(direction)];
  }
  void begin_request(StreamDirection direction, bool first);
  void expect_answer();
  std::size_t take_responses(const ReadPiece& piece, StreamDirection direction);

  /// It was upgraded, and what it carries now is told of.
  bool in_other_protocol() const { return stream_ && response_.upgraded(); }
  void end_stream(bool complete);

  TimelineConsumer& timeline_;
  std::uint64_t& next_stream_;
  std::uint32_t pid_;
  bool tls_;
  std::optional<std::string> peer_;
  std::optional<StreamDirection> responses_;  ///< the way they go; none: it is not known yet
  Http1ResponseParser response_;
  Http1RequestParser request_;
  std::uint64_t request_left_ = 0;  ///< bytes to come of the newest request's body
  std::vector<Request> requests_;   ///< not answered yet; the first is being answered
  bool is_answering_ = false;       ///< the response at hand is the answer to the first of them
  /// When something that is no response was last read, or written: by StreamDirection. It may be a
  /// part of a request whose head was not seen.
  std::array<std::optional<Ns>, 2> asked_at_;
  std::optional<ResponseBody> stream_;
  bool spoke_http1_ = false;
  Http2Detector detector_;  ///< asked while nothing is known
  std::unique_ptr<Http2Connection> http2_;

  // What the callbacks of the parser need to know of the call at hand.
  const ReadPiece* piece_ = nullptr;
  StreamDirection direction_ = StreamDirection::read;
  Ns now_ = 0;
  StreamEnd cause_ = StreamEnd::truncated;  ///< why the connection ends, if it does
  std::optional<Ns> closed_;                ///< likewise: when the peer closed it
  std::size_t completed_ = 0;
};

}  // namespace gcause
