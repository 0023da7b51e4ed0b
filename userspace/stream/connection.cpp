// SPDX-License-Identifier: Apache-2.0
#include "stream/connection.h"

#include <utility>

namespace gcause {

void Connection::set_peer(const std::optional<std::string>& peer) {
  peer_ = peer;
  if (http2_) http2_->set_peer(peer);
}

/// This connection as HTTP/2, if it is; `piece` holds the next bytes of a direction.
Http2Connection* Connection::as_http2(const ReadPiece& piece, StreamDirection direction) {
  // A connection may also go over to HTTP/2 in the course of time (RFC 7540, 3.2).
  if (http2_ || in_other_protocol() || (spoke_http1_ && !response_.upgraded())) return http2_.get();
  if (!detector_.sees(direction, piece.bytes)) return nullptr;
  http2_ = std::make_unique<Http2Connection>(timeline_, next_stream_, pid_, tls_);
  http2_->set_peer(peer_);
  for (const auto way : {StreamDirection::read, StreamDirection::write}) {
    const bool fed = way == direction;
    if (detector_.missed(way) || (!fed && !detector_.held(way).empty())) http2_->gap(way, piece.at);
  }
  ReadPiece held = piece;
  held.arrival = {};
  held.bytes = detector_.held(direction);
  http2_->moved(held, direction);
  return http2_.get();
}

std::size_t Connection::wrote(const ReadPiece& piece) {
  if (auto* http2 = as_http2(piece, StreamDirection::write)) {
    return http2->moved(piece, StreamDirection::write);
  }
  if (in_other_protocol()) return 0;
  const auto progress = request_.feed(piece.bytes);
  if (progress.began) {
    spoke_http1_ = true;
    // A client asks again when it has read all: if that was missed, some of it could not be copied.
    if (response_.in_body()) gap(piece.at);

    // The answer begins with the next byte that is read, wherever reads will cut it.
    response_.reset();
    response_.expect_no_body(request_.head().method == "HEAD");
    response_.expect_tunnel(request_.head().method == "CONNECT");
  }
  request_end_ = piece.at;
  return 0;
}

std::size_t Connection::read(const ReadPiece& piece) {
  if (auto* http2 = as_http2(piece, StreamDirection::read)) {
    return http2->moved(piece, StreamDirection::read);
  }
  piece_ = &piece;
  now_ = piece.at;
  completed_ = 0;
  if (in_other_protocol()) {
    stream_->feed(piece.bytes, piece.bytes.size(), piece);
  } else {
    response_.feed(piece.bytes, *this);
  }
  piece_ = nullptr;
  return completed_;
}

void Connection::skipped(std::uint64_t count, StreamDirection direction, Ns at) {
  if (http2_) return http2_->skipped(count, direction, at);
  detector_.skipped(direction);
  if (direction == StreamDirection::write) return;
  now_ = at;
  response_.skip(count, *this);
}

void Connection::suspect() {
  if (http2_) http2_->suspect();
}

void Connection::lost(std::uint32_t count, Ns at) {
  // Numbers that go back belong to something else.
  if (count >= std::uint32_t{1} << 31) return gap(at);
  skipped(count, StreamDirection::read, at);
  request_.on_gap();
  suspect();  // what was written meanwhile is not heard of either
}

void Connection::gap(Ns at) {
  if (http2_) return http2_->gap(StreamDirection::read, at);
  detector_.skipped(StreamDirection::read);
  now_ = at;
  response_.on_gap(*this);
  request_.on_gap();
}

void Connection::ended(StreamEnd end, Ns at, std::optional<Ns> closed) {
  if (http2_) return http2_->ended(end, at, closed);
  now_ = at;
  cause_ = end;
  closed_ = closed;
  response_.on_eof(*this);
  if (stream_) end_stream(true);
  cause_ = StreamEnd::truncated;
  closed_.reset();
}

void Connection::on_head(const ResponseHead& head) {
  spoke_http1_ = true;
  BodyHead body{};
  body.content_type = head.content_type;
  body.content_coding = head.content_encoding;
  body.has_length = head.content_length.has_value();
  body.until_close = !head.chunked && !head.content_length;
  body.websocket = head.upgrade == "websocket";
  StreamBegan began{};
  began.pid = pid_;
  began.direction = StreamDirection::read;
  began.peer = peer_;
  const bool is_answer = head.status != 0;  // to a request that was seen, if one was
  if (is_answer) began.host = request_.head().host;
  began.tls = tls_;
  began.protocol = StreamProtocol::http1;
  began.begin = now_;
  if (is_answer) began.request_end = request_end_;
  if (auto stream = ResponseBody::begin(timeline_, next_stream_, began, body)) {
    stream_.emplace(*std::move(stream));
  }
}

void Connection::on_body(std::span<const std::byte> piece, std::size_t end) {
  if (stream_) completed_ += stream_->feed(piece, end, *piece_);
}

void Connection::on_body_skipped(std::uint64_t count) {
  if (stream_) stream_->skip(count);
}

void Connection::on_end(bool complete) {
  // What follows on a 101 is the stream.
  if (stream_ && !in_other_protocol()) end_stream(complete);
}

void Connection::end_stream(bool complete) {
  completed_ += stream_->end(complete, cause_, now_, closed_.value_or(now_));
  stream_.reset();
}

}  // namespace gcause
