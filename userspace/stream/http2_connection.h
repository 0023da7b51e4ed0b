// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "recording/timeline.h"
#include "stream/http2_parser.h"
#include "stream/response_body.h"

namespace gcause {

/// The plaintext of one HTTP/2 connection: requests in one direction, responses in the other, and
/// the event streams among the responses. Writes streams and chunks to the timeline.
class Http2Connection : private Http2Handler {
 public:
  /// What is told of every stream; `next_stream` is the counter from which they take their ids.
  Http2Connection(TimelineConsumer& timeline, std::uint64_t& next_stream, std::uint32_t pid,
                  bool tls)
      : timeline_(timeline),
        next_stream_(next_stream),
        pid_(pid),
        tls_(tls),
        parser_(Http2Parser::Start::unknown) {}

  void set_peer(const std::optional<std::string>& peer) { peer_ = peer; }

  /// Returns the number of chunks that this piece completed.
  std::size_t moved(const ReadPiece& piece, StreamDirection direction);

  /// `count` bytes were moved that could not be copied.
  void skipped(std::uint64_t count, StreamDirection direction, Ns at);

  /// An unknown number of bytes is missing.
  void gap(StreamDirection direction, Ns at);

  /// Whole reads and writes may be missing without a trace.
  void suspect() { parser_.on_suspicion(); }

  /// Nothing more can be moved; streams in progress end, as `end` unless their last event says that
  /// they were complete. `closed`: when the peer had closed the connection, if it did.
  void ended(StreamEnd end, Ns at, std::optional<Ns> closed = {});

  /// The direction of the event streams that are in progress, if any are.
  std::optional<StreamDirection> in_stream() const {
    return event_streams_ > 0 ? responses_ : std::nullopt;
  }

  /// The process is the server of this connection, as far as is known.
  bool serves() const {
    return responses_ == StreamDirection::write || parser_.requests() == StreamDirection::read;
  }

 private:
  /// A request and its response.
  struct Exchange {
    std::optional<std::string> host;
    std::optional<Ns> request_end;
    bool no_body = false;        ///< the request was a HEAD
    bool may_be_events = false;  ///< the head leaves it open
    std::unique_ptr<ResponseBody> body;
  };

  void on_request(std::uint32_t stream, const Http2RequestHead& head) override;
  void on_request_end(std::uint32_t stream, std::size_t end) override;
  void on_head(std::uint32_t stream, const Http2ResponseHead& head) override;
  void on_body(std::uint32_t stream, std::span<const std::byte> piece, std::size_t end) override;
  void on_body_skipped(std::uint32_t stream, std::uint64_t count) override;
  void on_end(std::uint32_t stream, Http2End end) override;

  void begin_body(Exchange& exchange, const BodyHead& head);

  TimelineConsumer& timeline_;
  std::uint64_t& next_stream_;
  std::uint32_t pid_;
  bool tls_;
  std::optional<std::string> peer_;
  Http2Parser parser_;
  std::map<std::uint32_t, Exchange> exchanges_;  ///< by HTTP/2 stream
  std::size_t event_streams_ = 0;
  std::optional<StreamDirection> responses_;  ///< the way of the newest that may be a stream

  // What the callbacks of the parser need to know of the call at hand.
  const ReadPiece* piece_ = nullptr;
  StreamDirection direction_ = StreamDirection::read;
  Ns now_ = 0;
  StreamEnd cause_ = StreamEnd::truncated;  ///< why the connection ends, if it does
  std::optional<Ns> closed_;                ///< likewise: when the peer closed it
  std::size_t completed_ = 0;
};

}  // namespace gcause
