// SPDX-License-Identifier: Apache-2.0
#include "stream/event_stream.h"

#include "stream/chunk_rules.h"

namespace gcause {

EventStream::EventStream(TimelineConsumer& timeline, const StreamBegan& began, bool until_close)
    : timeline_(timeline), id_(began.id), pid_(began.pid), until_close_(until_close) {
  timeline_.consume(began);
}

std::size_t EventStream::feed(std::span<const std::byte> body, std::size_t end,
                              const ReadPiece& piece) {
  bytes_ += body.size();
  const std::size_t begin = end - body.size();
  std::size_t completed = 0;
  parser_.feed(body, [&](const SseParser::Event& event) {
    completed += take_event(event, begin + event.end, piece);
  });
  return completed;
}

/// Returns the number of chunks in it: one or none.
std::size_t EventStream::take_event(const SseParser::Event& event, std::size_t end,
                                    const ReadPiece& piece) {
  // The first events name the model, if any does.
  if (!model_ && model_tries_ < 3) {
    ++model_tries_;
    model_ = model_of(event.data);
  }
  if (classify_event(event.type, event.data) != EventClass::chunk) {
    ++other_events_;
    if (ends_stream(event.type, event.data)) done_at_ = piece.at;
    return 0;
  }
  ChunkRead chunk{};
  chunk.stream = id_;
  chunk.index = chunks_++;
  chunk.pid = pid_;
  chunk.tid = piece.tid;
  chunk.bytes = static_cast<std::uint32_t>(event.bytes);
  chunk.read = piece.at;
  chunk.arrival = piece.arrival.at(end);
  chunk.run_delay = piece.run_delay;
  timeline_.consume(chunk);
  return 1;
}

void EventStream::skip(std::uint64_t count) {
  bytes_ += count;
  parser_.skip(count);
}

StreamEnd EventStream::end_of(bool complete, StreamEnd cause) const {
  if (done_at_) return StreamEnd::done;
  if (!complete || cause != StreamEnd::truncated) return cause;
  return until_close_ ? StreamEnd::eof : StreamEnd::done;
}

void EventStream::end(bool complete, StreamEnd cause, Ns at, Ns cut) {
  const StreamEnd end = end_of(complete, cause);
  // A client may stop reading at the last event: then that was the end.
  StreamEnded ended{id_,    pid_,   done_at_.value_or(at),
                    end,    model_, other_events_ + parser_.comments(),
                    bytes_, {}};
  if (is_cut(end)) ended.cut = cut;
  timeline_.consume(ended);
}

}  // namespace gcause
