// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "recording/timeline.h"
#include "stream/http1_parser.h"
#include "stream/http2_connection.h"
#include "stream/http2_detector.h"
#include "stream/response_body.h"

namespace gcause {

/// The plaintext of one connection: HTTP/1.1 responses read, requests written, and the event
/// streams among the responses; or HTTP/2, if it turns out to be that. Writes streams and chunks to
/// the timeline.
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
  std::size_t wrote(const ReadPiece& piece);
  std::size_t read(const ReadPiece& piece);

  /// `count` bytes were read, or written, that could not be copied.
  void skipped(std::uint64_t count, StreamDirection direction, Ns at);

  /// Records were lost: whole reads and writes may be missing without a trace.
  void suspect();

  /// Of `count` bytes, modulo 2^32, nothing was heard: what was read has a gap in its sequence
  /// numbers. A stream goes on where the framing tells that they are part of it.
  void lost(std::uint32_t count, Ns at);

  /// An unknown number of bytes is missing.
  void gap(Ns at);

  /// Nothing more can be read; a stream in progress ends, as `end` unless its last event says that
  /// it was complete. `closed`: when the peer had closed the connection, if it did.
  void ended(StreamEnd end, Ns at, std::optional<Ns> closed = {});

  /// An event stream is in progress.
  bool in_stream() const { return http2_ ? http2_->in_stream() : stream_ && stream_->has_events(); }

 private:
  Http2Connection* as_http2(const ReadPiece& piece, StreamDirection direction);
  void on_head(const ResponseHead& head) override;
  void on_body(std::span<const std::byte> piece, std::size_t end) override;
  void on_body_skipped(std::uint64_t count) override;
  void on_end(bool complete) override;

  /// It was upgraded, and what it carries now is told of.
  bool in_other_protocol() const { return stream_ && response_.upgraded(); }
  void end_stream(bool complete);

  TimelineConsumer& timeline_;
  std::uint64_t& next_stream_;
  std::uint32_t pid_;
  bool tls_;
  std::optional<std::string> peer_;
  Http1ResponseParser response_;
  Http1RequestParser request_;
  std::optional<Ns> request_end_;
  std::optional<ResponseBody> stream_;
  bool spoke_http1_ = false;
  Http2Detector detector_;  ///< asked while nothing is known
  std::unique_ptr<Http2Connection> http2_;

  // What the callbacks of the parser need to know of the read at hand.
  const ReadPiece* piece_ = nullptr;
  Ns now_ = 0;
  StreamEnd cause_ = StreamEnd::truncated;  ///< why the connection ends, if it does
  std::optional<Ns> closed_;                ///< likewise: when the peer closed it
  std::size_t completed_ = 0;
};

}  // namespace gcause
