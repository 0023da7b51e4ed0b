// SPDX-License-Identifier: Apache-2.0
#include "stream/response_body.h"

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "stream/http1_parser.h"

namespace gcause {
namespace {

/// What newline-delimited JSON is called; there is no registered name.
constexpr std::array<std::string_view, 8> kNdjsonTypes = {
    "application/x-ndjson",   "application/ndjson",      "application/jsonl",
    "application/json-lines", "application/x-jsonlines", "application/jsonlines",
    "application/x-jsonl",    "application/stream+json"};

std::optional<StreamFormat> format_of(std::string_view content_type) {
  if (content_type == kEventStream) return StreamFormat::sse;
  if (std::ranges::find(kNdjsonTypes, content_type) != kNdjsonTypes.end()) {
    return StreamFormat::ndjson;
  }
  return std::nullopt;
}

std::optional<UnreadFormat> unread_format_of(const BodyHead& head) {
  if (head.websocket) return UnreadFormat::websocket;
  if (head.content_type == "application/vnd.amazon.eventstream") {
    return UnreadFormat::amazon_event_stream;
  }
  // A body of known length was there before its first byte was sent. One that is coded is not
  // looked into: nearly all of them are answers in one go.
  if (head.content_type == "application/json" && !head.has_length && head.content_coding.empty()) {
    return UnreadFormat::json_array;
  }
  return std::nullopt;
}

/// A list of codings that can go to terminals and files. It is the target's own text.
std::string tellable(std::string_view codings) {
  constexpr std::size_t kMaxCodings = 64;
  const bool good = codings.size() <= kMaxCodings &&
                    std::ranges::all_of(codings, [](char c) { return c >= 0x20 && c < 0x7F; });
  return good ? std::string(codings) : "unknown";
}

}  // namespace

std::optional<ResponseBody> ResponseBody::begin(TimelineConsumer& timeline,
                                                std::uint64_t& next_stream, StreamBegan began,
                                                const BodyHead& head) {
  if (const auto unread = unread_format_of(head)) {
    return ResponseBody(UnreadStream(
        timeline, {began.pid, began.direction, began.peer, began.host, began.tls, began.protocol,
                   *unread, head.websocket ? std::string() : std::string(head.content_type),
                   began.begin, began.begin, 0, 0}));
  }
  const auto format = format_of(head.content_type);
  if (!format) return std::nullopt;
  began.id = next_stream++;
  began.format = *format;
  began.content_type = head.content_type;
  began.content_coding = tellable(head.content_coding);
  return ResponseBody(EventStream(timeline, began, head.until_close));
}

std::size_t ResponseBody::feed(std::span<const std::byte> body, std::size_t end,
                               const ReadPiece& piece) {
  if (auto* events = std::get_if<EventStream>(&body_)) return events->feed(body, end, piece);
  std::get<UnreadStream>(body_).feed(body, piece.at);
  return 0;
}

void ResponseBody::skip(std::uint64_t count) {
  std::visit([&](auto& body) { body.skip(count); }, body_);
}

std::size_t ResponseBody::end(bool complete, StreamEnd cause, Ns at, Ns cut) {
  if (auto* events = std::get_if<EventStream>(&body_)) return events->end(complete, cause, at, cut);
  std::get<UnreadStream>(body_).end(at);
  return 0;
}

}  // namespace gcause
