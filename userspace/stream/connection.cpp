// SPDX-License-Identifier: Apache-2.0
#include "stream/connection.h"

#include <algorithm>
#include <utility>

namespace gcause {
namespace {

StreamDirection opposite(StreamDirection direction) {
  return direction == StreamDirection::read ? StreamDirection::write : StreamDirection::read;
}

}  // namespace

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

std::size_t Connection::moved(const ReadPiece& piece, StreamDirection direction) {
  if (auto* http2 = as_http2(piece, direction)) return http2->moved(piece, direction);
  now_ = piece.at;
  if (in_other_protocol() && responses_ != direction) return 0;
  // Nobody sends requests between responses: this is another connection than it was taken for.
  if (responses_ == direction && !response_.in_body() && !in_other_protocol() &&
      Http1RequestParser::begins_request(piece.bytes)) {
    responses_ = opposite(direction);
    requests_.clear();
  }
  if (responses_ == direction) return take_responses(piece, direction);
  const bool is_request = take_requests(piece, direction);
  if (is_request) responses_ = opposite(direction);
  if (responses_) return 0;
  const auto chunks = take_responses(piece, direction);
  if (!response_.lost()) responses_ = direction;
  return chunks;
}

/// Takes requests and their bodies, whole ones and parts. Whether a head began in them.
bool Connection::take_requests(const ReadPiece& piece, StreamDirection direction) {
  const auto& bytes = piece.bytes;
  // A client begins a request with a write of its own, so what was left of the one before is lost.
  if (request_left_ > 0 && Http1RequestParser::begins_request(bytes)) request_left_ = 0;
  bool any = false;
  std::size_t at = 0;
  while (at < bytes.size()) {
    if (request_left_ > 0) {
      const auto size = std::min<std::uint64_t>(request_left_, bytes.size() - at);
      request_left_ -= size;
      at += static_cast<std::size_t>(size);
    } else {
      const auto progress = request_.feed(bytes.subspan(at));
      if (progress.began) {
        begin_request(direction, !any);
        any = true;
      }
      const auto& head = request_.head();
      if (progress.finished && !requests_.empty()) requests_.back().host = head.host;
      // Without a length the body lasts until a head begins with a call of its own.
      at = progress.finished && head.body ? at + progress.end : bytes.size();
      if (progress.finished) request_left_ = head.body.value_or(0);
    }
    const bool is_read = direction == StreamDirection::read;
    const Ns there = is_read ? piece.arrival.at(at).value_or(piece.at) : piece.at;
    asked_at(direction) = there;
    if (!requests_.empty()) requests_.back().end = there;
  }
  return any;
}

/// `first`: the call at hand begins with it.
void Connection::begin_request(StreamDirection direction, bool first) {
  spoke_http1_ = true;
  if (direction == StreamDirection::write && first) {
    // A client asks again when it has read all: if that was missed, some of it could not be copied.
    if (response_.in_body()) response_.on_gap(*this);
    // The answer begins with the next byte that is read, wherever reads will cut it.
    requests_.clear();
  }
  if (response_.lost() || requests_.size() == kMaxRequests) requests_.clear();
  if (requests_.empty() && !response_.in_body()) response_.reset();
  const auto& method = request_.head().method;
  requests_.push_back({method == "HEAD", method == "CONNECT"});
  if (requests_.size() == 1) expect_answer();
}

void Connection::expect_answer() {
  response_.expect_no_body(!requests_.empty() && requests_.front().is_head);
  response_.expect_tunnel(!requests_.empty() && requests_.front().is_connect);
}

std::size_t Connection::take_responses(const ReadPiece& piece, StreamDirection direction) {
  piece_ = &piece;
  direction_ = direction;
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
  now_ = at;
  if (responses_.value_or(direction) == direction) {
    response_.skip(count, *this);
    return;
  }
  asked_at(direction) = at;
  if (!requests_.empty()) requests_.back().end = at;
  if (count > request_left_) request_.on_gap();
  request_left_ -= std::min(count, request_left_);
}

void Connection::suspect() {
  if (http2_) http2_->suspect();
}

void Connection::lost(std::uint32_t count, Ns at) {
  // Numbers that go back belong to something else.
  const bool is_count = count < std::uint32_t{1} << 31;
  if (is_count) {
    skipped(count, StreamDirection::read, at);
    suspect();  // what was written meanwhile is not heard of either
  } else if (http2_) {
    http2_->gap(StreamDirection::read, at);
  }
  request_.on_gap();
  detector_.skipped(StreamDirection::read);
  if (is_count || http2_ || serves()) return;
  now_ = at;
  response_.on_gap(*this);
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
  const auto* request = requests_.empty() ? nullptr : &requests_.front();
  is_answering_ = request != nullptr;
  if (request && request->is_head) return;
  BodyHead body{};
  body.content_type = head.content_type;
  body.content_coding = head.content_encoding;
  body.has_length = head.content_length.has_value();
  body.until_close = !head.chunked && !head.content_length;
  body.websocket = head.upgrade == "websocket";
  StreamBegan began{};
  began.pid = pid_;
  began.direction = direction_;
  began.peer = peer_;
  const bool is_answer = head.status != 0;  // to a request that was seen, if one was
  if (is_answer && request) began.host = request->host;
  began.tls = tls_;
  began.protocol = StreamProtocol::http1;
  began.begin = now_;
  if (is_answer) began.request_end = request ? request->end : asked_at(opposite(direction_));
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
  if (in_other_protocol()) return;
  if (stream_) end_stream(complete);
  if (is_answering_ && !requests_.empty()) requests_.erase(requests_.begin());
  is_answering_ = false;
  expect_answer();
}

void Connection::end_stream(bool complete) {
  completed_ += stream_->end(complete, cause_, now_, closed_.value_or(now_));
  stream_.reset();
}

}  // namespace gcause
