// SPDX-License-Identifier: Apache-2.0
#include "stream/connection.h"

#include <utility>

namespace gcause {

void Connection::wrote(std::span<const std::byte> bytes, Ns at) {
  if (in_other_protocol()) return;
  const auto progress = request_.feed(bytes);
  if (progress.began) {
    // A client asks again when it has read all: if that was missed, some of it could not be copied.
    if (response_.in_body()) gap(at);

    // The answer begins with the next byte that is read, wherever reads will cut it.
    response_.reset();
    response_.expect_no_body(request_.head().method == "HEAD");
    response_.expect_tunnel(request_.head().method == "CONNECT");
  }
  request_end_ = at;
}

std::size_t Connection::read(const ReadPiece& piece) {
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

void Connection::skipped(std::uint64_t count, Ns at) {
  now_ = at;
  response_.skip(count, *this);
}

void Connection::lost(std::uint32_t count, Ns at) {
  // Numbers that go back belong to something else.
  if (count >= std::uint32_t{1} << 31) return gap(at);
  now_ = at;
  response_.skip(count, *this);
  request_.on_gap();
}

void Connection::gap(Ns at) {
  now_ = at;
  response_.on_gap(*this);
  request_.on_gap();
}

void Connection::ended(StreamEnd end, Ns at, std::optional<Ns> closed) {
  now_ = at;
  cause_ = end;
  closed_ = closed;
  response_.on_eof(*this);
  if (stream_) end_stream(true);
  cause_ = StreamEnd::truncated;
  closed_.reset();
}

void Connection::on_head(const ResponseHead& head) {
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
