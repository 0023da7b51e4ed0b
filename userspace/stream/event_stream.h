// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "recording/timeline.h"
#include "stream/arrival_log.h"
#include "stream/sse_parser.h"

namespace gcause {

/// One piece of what a read handed to the program.
struct ReadPiece {
  Ns at;  ///< the read returned
  std::uint32_t tid;
  std::span<const std::byte> bytes;
  PieceArrival arrival;
  std::optional<std::uint32_t> run_delay = {};  ///< as that of Io
};

/// The event stream in the body of one response: its events, and which of them are chunks. Tells
/// the timeline of its begin, its chunks and its end.
class EventStream {
 public:
  /// `until_close`: only the end of the connection ends the body.
  EventStream(TimelineConsumer& timeline, const StreamBegan& began, bool until_close);

  /// Takes bytes of the body, a part of `piece.bytes` that ends just before index `end` of it.
  /// Returns the number of chunks that they completed.
  std::size_t feed(std::span<const std::byte> body, std::size_t end, const ReadPiece& piece);

  /// `count` bytes of the body passed unseen.
  void skip(std::uint64_t count);

  /// The body is over; `complete`: its framing says that all of it was seen. Otherwise it ended as
  /// `cause`, unless its last event says that it was complete. `cut`: when the connection closed.
  void end(bool complete, StreamEnd cause, Ns at, Ns cut);

 private:
  std::size_t take_event(const SseParser::Event& event, std::size_t end, const ReadPiece& piece);
  StreamEnd end_of(bool complete, StreamEnd cause) const;

  TimelineConsumer& timeline_;
  std::uint64_t id_;
  std::uint32_t pid_;
  bool until_close_;
  std::uint32_t chunks_ = 0;
  std::uint64_t other_events_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t model_tries_ = 0;
  std::optional<std::string> model_;
  std::optional<Ns> done_at_;  ///< the event that says that no output follows was read
  SseParser parser_;
};

}  // namespace gcause
