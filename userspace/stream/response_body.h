// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>

#include "recording/timeline.h"
#include "stream/event_stream.h"
#include "stream/unread_stream.h"

namespace gcause {

/// What the head of a response says of its body, whatever the version of HTTP.
struct BodyHead {
  std::string_view content_type;    ///< media type in lower case, without parameters
  std::string_view content_coding;  ///< as listed; empty: none
  bool has_length = false;          ///< the head says how long the body is
  bool until_close = false;         ///< only the end of the connection ends the body
  bool websocket = false;           ///< what follows are frames of RFC 6455
};

/// The body of one response that streams, or may: an event stream that is read, or something else
/// that is told of and not read.
class ResponseBody {
 public:
  /// By its head; nothing for a body that does not stream. `began` is what is known of the
  /// exchange: its id, format, type and coding are filled in here, the id from `next_stream`.
  static std::optional<ResponseBody> begin(TimelineConsumer& timeline, std::uint64_t& next_stream,
                                           StreamBegan began, const BodyHead& head);

  /// As those of EventStream.
  std::size_t feed(std::span<const std::byte> body, std::size_t end, const ReadPiece& piece);
  void skip(std::uint64_t count);
  std::size_t end(bool complete, StreamEnd cause, Ns at, Ns cut);

  /// It is an event stream: its bytes are worth copying.
  bool has_events() const { return std::holds_alternative<EventStream>(body_); }

 private:
  explicit ResponseBody(EventStream events) : body_(std::move(events)) {}
  explicit ResponseBody(UnreadStream unread) : body_(std::move(unread)) {}

  std::variant<EventStream, UnreadStream> body_;
};

}  // namespace gcause
