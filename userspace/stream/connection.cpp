// SPDX-License-Identifier: Apache-2.0
#include "stream/connection.h"

#include "stream/chunk_rules.h"

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

void Connection::ended(StreamEnd end, Ns at) {
  now_ = at;
  cause_ = end;
  response_.on_eof(*this);
  cause_ = StreamEnd::truncated;
}

void Connection::on_head(const ResponseHead& head) {
  // Encoded bodies are not read: their events cannot be told apart.
  if (head.content_type != "text/event-stream" || !head.content_encoding.empty()) return;
  stream_.emplace();
  stream_->id = next_stream_++;
  stream_->until_close = !head.chunked && !head.content_length;
  StreamBegan began{};
  began.id = stream_->id;
  began.pid = pid_;
  began.direction = StreamDirection::read;
  began.peer = peer_;
  began.host = request_.head().host;
  began.tls = tls_;
  began.protocol = StreamProtocol::http1;
  began.begin = now_;
  began.request_end = request_end_;
  timeline_.consume(began);
}

void Connection::on_body(std::span<const std::byte> piece, std::size_t end) {
  if (!stream_) return;
  stream_->bytes += piece.size();
  const std::size_t begin = end - piece.size();
  stream_->parser.feed(
      piece, [&](const SseParser::Event& event) { take_event(event, begin + event.end); });
}

void Connection::take_event(const SseParser::Event& event, std::size_t end) {
  auto& stream = *stream_;
  // The first events name the model, if any does.
  if (!stream.model && stream.model_tries < 3) {
    ++stream.model_tries;
    stream.model = model_of(event.data);
  }
  if (classify_event(event.type, event.data) != EventClass::chunk) {
    ++stream.other_events;
    if (ends_stream(event.type, event.data)) {
      stream.said_done = true;
      stream.done_at = now_;
    }
    return;
  }
  ChunkRead chunk{};
  chunk.stream = stream.id;
  chunk.index = stream.chunks++;
  chunk.pid = pid_;
  chunk.tid = piece_->tid;
  chunk.bytes = static_cast<std::uint32_t>(event.bytes);
  chunk.read = now_;
  chunk.arrival = piece_->arrival.at(end);
  chunk.run_delay = piece_->run_delay;
  ++completed_;
  timeline_.consume(chunk);
}

void Connection::on_body_skipped(std::uint64_t count) {
  if (!stream_) return;
  stream_->bytes += count;
  stream_->parser.skip(count);
}

void Connection::on_end(bool complete) {
  if (!stream_) return;
  if (stream_->said_done) {
    end_stream(StreamEnd::done);
  } else if (!complete || cause_ != StreamEnd::truncated) {
    end_stream(cause_);
  } else {
    end_stream(stream_->until_close ? StreamEnd::eof : StreamEnd::done);
  }
}

void Connection::end_stream(StreamEnd end) {
  const auto& stream = *stream_;
  // A client may stop reading at the last event: then that was the end.
  const bool early = stream.said_done && end == StreamEnd::done;
  timeline_.consume(StreamEnded{stream.id, pid_, early ? stream.done_at : now_, end, stream.model,
                                stream.other_events + stream.parser.comments(), stream.bytes});
  stream_.reset();
}

}  // namespace gcause
