// SPDX-License-Identifier: Apache-2.0
#include "stream/connection.h"

namespace gcause {

void Connection::wrote(std::span<const std::byte> bytes, Ns at) {
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
  response_.feed(piece.bytes, *this);
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
  cause_ = StreamEnd::truncated;
  closed_.reset();
}

void Connection::on_head(const ResponseHead& head) {
  // Encoded bodies are not read: their events cannot be told apart.
  if (head.content_type != kEventStream || !head.content_encoding.empty()) return;
  StreamBegan began{};
  began.id = next_stream_++;
  began.pid = pid_;
  began.direction = StreamDirection::read;
  began.peer = peer_;
  const bool is_answer = head.status != 0;  // to a request that was seen, if one was
  if (is_answer) began.host = request_.head().host;
  began.tls = tls_;
  began.protocol = StreamProtocol::http1;
  began.begin = now_;
  if (is_answer) began.request_end = request_end_;
  stream_.emplace(timeline_, began, !head.chunked && !head.content_length);
}

void Connection::on_body(std::span<const std::byte> piece, std::size_t end) {
  if (stream_) completed_ += stream_->feed(piece, end, *piece_);
}

void Connection::on_body_skipped(std::uint64_t count) {
  if (stream_) stream_->skip(count);
}

void Connection::on_end(bool complete) {
  if (!stream_) return;
  stream_->end(complete, cause_, now_, closed_.value_or(now_));
  stream_.reset();
}

}  // namespace gcause
