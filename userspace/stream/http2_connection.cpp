// SPDX-License-Identifier: Apache-2.0
#include "stream/http2_connection.h"

#include <string_view>

#include "stream/http1_parser.h"
#include "stream/mid_body.h"

namespace gcause {
namespace {

/// Whether a body whose head does not tell what it is may be an event stream.
bool leaves_open(const Http2ResponseHead& head) {
  return !head.whole && head.content_type.empty() && head.content_encoding.empty();
}

bool begins_with_event(std::span<const std::byte> body) {
  const std::string_view text(reinterpret_cast<const char*>(body.data()), body.size());
  return match_mid_body(text) == MidBody::plain;
}

}  // namespace

std::size_t Http2Connection::moved(const ReadPiece& piece, StreamDirection direction) {
  piece_ = &piece;
  direction_ = direction;
  now_ = piece.at;
  completed_ = 0;
  parser_.feed(direction, piece.bytes, *this);
  piece_ = nullptr;
  return completed_;
}

void Http2Connection::skipped(std::uint64_t count, StreamDirection direction, Ns at) {
  direction_ = direction;
  now_ = at;
  parser_.skip(direction, count, *this);
}

void Http2Connection::gap(StreamDirection direction, Ns at) {
  direction_ = direction;
  now_ = at;
  parser_.on_gap(direction, *this);
}

void Http2Connection::ended(StreamEnd end, Ns at, std::optional<Ns> closed) {
  now_ = at;
  cause_ = end;
  closed_ = closed;
  parser_.on_eof(*this);
  cause_ = StreamEnd::truncated;
  closed_.reset();
}

void Http2Connection::on_request(std::uint32_t stream, const Http2RequestHead& head) {
  auto& exchange = exchanges_[stream];
  if (head.host) exchange.host = std::string(*head.host);
  exchange.no_body = head.method == "HEAD";
}

/// A request that is read is over when its last byte has arrived.
void Http2Connection::on_request_end(std::uint32_t stream, std::size_t end) {
  const bool is_read = piece_ != nullptr && direction_ == StreamDirection::read;
  exchanges_[stream].request_end = is_read ? piece_->arrival.at(end).value_or(now_) : now_;
}

void Http2Connection::on_head(std::uint32_t stream, const Http2ResponseHead& head) {
  auto& exchange = exchanges_[stream];
  if (exchange.no_body) return;
  exchange.may_be_events = leaves_open(head);
  if (!head.seen) exchange.request_end.reset();
  if (exchange.may_be_events) return;
  BodyHead body{};
  body.content_type = head.content_type;
  body.content_coding = head.content_encoding;
  body.has_length = head.has_length;
  begin_body(exchange, body);
}

void Http2Connection::begin_body(Exchange& exchange, const BodyHead& head) {
  responses_ = direction_;
  StreamBegan began{};
  began.pid = pid_;
  began.direction = direction_;
  began.peer = peer_;
  began.host = exchange.host;
  began.tls = tls_;
  began.protocol = StreamProtocol::h2;
  began.begin = now_;
  began.request_end = exchange.request_end;
  auto body = ResponseBody::begin(timeline_, next_stream_, began, head);
  if (!body) return;
  exchange.body = std::make_unique<ResponseBody>(*std::move(body));
  event_streams_ += exchange.body->has_events();
}

void Http2Connection::on_body(std::uint32_t stream, std::span<const std::byte> piece,
                              std::size_t end) {
  auto& exchange = exchanges_[stream];
  if (exchange.may_be_events && begins_with_event(piece)) {
    exchange.may_be_events = false;
    BodyHead head{};
    head.content_type = kEventStream;
    begin_body(exchange, head);
  }
  if (exchange.body) completed_ += exchange.body->feed(piece, end, *piece_);
}

void Http2Connection::on_body_skipped(std::uint32_t stream, std::uint64_t count) {
  const auto& exchange = exchanges_[stream];
  if (exchange.body) exchange.body->skip(count);
}

void Http2Connection::on_end(std::uint32_t stream, Http2End end) {
  const auto found = exchanges_.find(stream);
  if (found == exchanges_.end()) return;
  if (auto* body = found->second.body.get()) {
    // The peer's reset is one of the stream; the process's own means that it wants no more.
    const auto cause = end == Http2End::reset_read ? StreamEnd::reset : cause_;
    completed_ += body->end(end == Http2End::complete, cause, now_, closed_.value_or(now_));
    event_streams_ -= body->has_events();
  }
  exchanges_.erase(found);
}

}  // namespace gcause
