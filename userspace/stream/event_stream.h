// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "recording/timeline.h"
#include "stream/arrival_log.h"
#include "stream/content_decoder.h"
#include "stream/ndjson_parser.h"
#include "stream/sse_parser.h"

namespace gcause {

/// One piece of what a read handed to the program, or a write took from it.
struct ReadPiece {
  Ns at;  ///< the call returned
  std::uint32_t tid;
  std::span<const std::byte> bytes;
  PieceArrival arrival;  ///< of a write: when the thread had something that it could write
  std::optional<std::uint32_t> run_delay = {};  ///< as that of Io
};

/// The event stream in the body of one response: its events, and which of them are chunks. Tells
/// the timeline of its begin, its chunks and its end. A body whose coding cannot be undone has
/// reads and an end only.
class EventStream {
 public:
  /// What `began` says of format and coding rules how the body is read. `until_close`: only the end
  /// of the connection ends the body.
  EventStream(TimelineConsumer& timeline, const StreamBegan& began, bool until_close);

  /// Takes bytes of the body, a part of `piece.bytes` that ends just before index `end` of it.
  /// Returns the number of chunks that they completed.
  std::size_t feed(std::span<const std::byte> body, std::size_t end, const ReadPiece& piece);

  /// `count` bytes of the body passed unseen.
  void skip(std::uint64_t count);

  /// The body is over; `complete`: its framing says that all of it was seen. Otherwise it ended as
  /// `cause`, unless its last event says that it was complete. `cut`: when the connection closed.
  /// Returns the number of chunks that its end completed: a last line may lack its LF.
  std::size_t end(bool complete, StreamEnd cause, Ns at, Ns cut);

 private:
  /// One event of either format.
  struct Seen {
    std::string_view type;
    std::string_view data;
    std::uint64_t bytes;
    bool truncated;
  };

  /// Where the last byte of decoded bytes stands in the piece.
  struct Place {
    std::size_t begin;  ///< index of the first byte
    bool moves;         ///< each further one is one further; otherwise all of them are at `begin`

    std::size_t of(std::size_t end) const { return moves ? begin + end : begin; }
  };

  std::size_t parse(std::span<const std::byte> text, Place place, const ReadPiece& piece);
  std::size_t take_event(const Seen& event, std::optional<Ns> arrival, Ns at, std::uint32_t tid,
                         std::optional<std::uint32_t> run_delay);
  void count_event(std::string_view name);
  void count_read(const ReadPiece& piece);
  StreamEnd end_of(bool complete, StreamEnd cause) const;
  std::uint64_t comments() const;

  TimelineConsumer& timeline_;
  std::uint64_t id_;
  std::uint32_t pid_;
  bool until_close_;
  std::uint32_t chunks_ = 0;
  std::uint64_t other_events_ = 0;
  std::uint64_t bytes_ = 0;
  std::uint32_t model_tries_ = 0;
  std::uint32_t last_tid_ = 0;
  std::optional<std::string> model_;
  std::optional<Ns> done_at_;  ///< the event that says that no output follows was read
  BodySeen body_;
  std::optional<ContentDecoder> decoder_;  ///< none where there is no coding, or it failed
  std::variant<SseParser, NdjsonParser> parser_;
};

}  // namespace gcause
