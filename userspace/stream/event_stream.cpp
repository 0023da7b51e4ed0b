// SPDX-License-Identifier: Apache-2.0
#include "stream/event_stream.h"

#include <algorithm>
#include <functional>

#include "stream/chunk_rules.h"

namespace gcause {

EventStream::EventStream(TimelineConsumer& timeline, const StreamBegan& began, bool until_close)
    : timeline_(timeline), id_(began.id), pid_(began.pid), until_close_(until_close) {
  if (began.format == StreamFormat::ndjson) parser_.emplace<NdjsonParser>();
  if (!began.content_coding.empty()) {
    decoder_ = ContentDecoder::make(began.content_coding);
    if (!decoder_) body_.undecoded = Undecoded::unknown_coding;
  }
  timeline_.consume(began);
}

std::size_t EventStream::feed(std::span<const std::byte> body, std::size_t end,
                              const ReadPiece& piece) {
  count_read(piece);
  bytes_ += body.size();
  if (body_.undecoded) return 0;
  const std::size_t begin = end - body.size();
  if (!decoder_) return parse(body, {begin, true}, piece);

  // What arrived at one time is decoded in one go: no event is told to have arrived later than it
  // could be read.
  std::size_t completed = 0;
  for (std::size_t at = begin; at < end;) {
    const std::size_t stop = piece.arrival.run_end(at, end);
    decoder_->feed(body.subspan(at - begin, stop - at), [&](std::span<const std::byte> text) {
      completed += parse(text, {stop, false}, piece);
    });
    at = stop;
  }
  body_.undecoded = decoder_->failure();
  if (body_.undecoded) decoder_.reset();
  return completed;
}

std::size_t EventStream::parse(std::span<const std::byte> text, Place place,
                               const ReadPiece& piece) {
  std::size_t completed = 0;
  const auto take = [&](const Seen& event, std::size_t event_end) {
    completed += take_event(event, piece.arrival.at(place.of(event_end)), piece.at, piece.tid,
                            piece.run_delay);
  };
  if (auto* lines = std::get_if<NdjsonParser>(&parser_)) {
    lines->feed(text, [&](const NdjsonParser::Line& line) {
      take({{}, line.data, line.bytes, line.truncated}, line.end);
    });
  } else {
    std::get<SseParser>(parser_).feed(text, [&](const SseParser::Event& event) {
      take({event.type, event.data, event.bytes, event.truncated}, event.end);
    });
  }
  return completed;
}

/// Returns the number of chunks in it: one or none.
std::size_t EventStream::take_event(const Seen& event, std::optional<Ns> arrival, Ns at,
                                    std::uint32_t tid, std::optional<std::uint32_t> run_delay) {
  // The first events name the model, if any does.
  if (!model_ && model_tries_ < 3) {
    ++model_tries_;
    model_ = model_of(event.data);
  }
  const EventRole role = role_of_event(event.type, event.data);
  count_event(role.name);
  if (event.truncated) ++body_.truncated;
  if (role.last) done_at_ = at;
  if (role.kind != EventClass::chunk) {
    ++other_events_;
    return 0;
  }
  ChunkRead chunk{};
  chunk.stream = id_;
  chunk.index = chunks_++;
  chunk.pid = pid_;
  chunk.tid = tid;
  chunk.bytes = static_cast<std::uint32_t>(event.bytes);
  chunk.read = at;
  chunk.arrival = arrival;
  chunk.run_delay = run_delay;
  chunk.likeness = std::hash<std::string_view>()(event.data);
  timeline_.consume(chunk);
  return 1;
}

void EventStream::count_event(std::string_view name) {
  const auto known = std::ranges::find(body_.events, name, &EventCount::name);
  if (known != body_.events.end()) {
    ++known->count;
  } else {
    body_.events.push_back({std::string(name), 1});
  }
}

/// The pieces of one read share its time.
void EventStream::count_read(const ReadPiece& piece) {
  last_tid_ = piece.tid;
  if (body_.last_read == piece.at) return;
  ++body_.reads;
  if (!body_.first_read) body_.first_read = piece.at;
  body_.longest_silence =
      std::max(body_.longest_silence, piece.at - body_.last_read.value_or(piece.at));
  body_.last_read = piece.at;
}

void EventStream::skip(std::uint64_t count) {
  if (count == 0) return;
  bytes_ += count;
  if (decoder_) {
    body_.undecoded = Undecoded::gap;
    decoder_.reset();
  } else {
    std::visit([&](auto& parser) { parser.skip(count); }, parser_);
  }
}

StreamEnd EventStream::end_of(bool complete, StreamEnd cause) const {
  if (done_at_) return StreamEnd::done;
  if (!complete || cause != StreamEnd::truncated) return cause;
  return until_close_ ? StreamEnd::eof : StreamEnd::done;
}

std::size_t EventStream::end(bool complete, StreamEnd cause, Ns at, Ns cut) {
  std::size_t completed = 0;
  auto* lines = std::get_if<NdjsonParser>(&parser_);
  auto* events = std::get_if<SseParser>(&parser_);
  if (events != nullptr && complete && events->may_be_over()) {
    // A body that is complete ends behind an event; the end of this one was not seen.
    const std::string_view blank = "\n\n";
    events->feed(std::as_bytes(std::span(blank)), [&](const SseParser::Event& event) {
      completed += take_event({event.type, event.data, event.bytes - blank.size(), true},
                              std::nullopt, at, last_tid_, std::nullopt);
    });
  }
  const StreamEnd how = end_of(complete, cause);
  if (lines != nullptr && (how == StreamEnd::done || how == StreamEnd::eof)) {
    // It is the end of the body that completes this line, and when that arrived is not known here.
    lines->finish([&](const NdjsonParser::Line& line) {
      completed += take_event({{}, line.data, line.bytes, line.truncated}, std::nullopt, at,
                              last_tid_, std::nullopt);
    });
  }
  // A client may stop reading at the last event: then that was the end.
  StreamEnded ended{id_,   pid_, done_at_.value_or(at), how, model_, other_events_ + comments(),
                    bytes_};
  if (is_cut(how)) ended.cut = cut;
  ended.body = std::move(body_);
  timeline_.consume(ended);
  return completed;
}

std::uint64_t EventStream::comments() const {
  const auto* events = std::get_if<SseParser>(&parser_);
  return events != nullptr ? events->comments() : 0;
}

}  // namespace gcause
