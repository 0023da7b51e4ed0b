// SPDX-License-Identifier: Apache-2.0
//
// Reads, writes, ends and waits of a few threads on a few connections, in both directions, as the
// input says; the first byte of each says what it is, the second how many bytes behind them it
// moves. Streams must begin, go on and end in order, sources must have been read, and attribution
// must hand out each chunk once.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <span>
#include <utility>
#include <variant>

#include "attribution/attribution.h"
#include "stream/stream_tracker.h"

namespace {

using namespace gcause;

void require(bool condition) {
  if (!condition) std::abort();
}

class Checker final : public TimelineConsumer {
 public:
  Checker() : attribution_([this](const Finding& finding) { found(finding); }) {
    attribution_.consume(SessionStarted{"", 0, 0, 50, "", {}});
  }

  void consume(const TimelineEvent& event) override {
    if (const auto* began = std::get_if<StreamBegan>(&event)) {
      require(streams_.emplace(began->id, Stream{began->direction, 0, false}).second);
    } else if (const auto* chunk = std::get_if<ChunkRead>(&event)) {
      check(*chunk);
    } else if (const auto* ended = std::get_if<StreamEnded>(&event)) {
      auto& stream = streams_.at(ended->id);
      require(!std::exchange(stream.ended, true));
    }
    attribution_.consume(event);
  }

  void finish(Ns at) {
    for (const auto& [id, stream] : streams_) require(stream.ended);
    attribution_.consume(RecordingEnded{at});
    attribution_.finish();
    require(chunks_in_ == chunks_out_);
  }

 private:
  struct Stream {
    StreamDirection direction;
    std::uint32_t chunks;
    bool ended;
  };

  void check(const ChunkRead& chunk) {
    auto& stream = streams_.at(chunk.stream);
    require(!stream.ended && chunk.index == stream.chunks++);
    ++chunks_in_;
    if (!chunk.source) return;
    require(stream.direction == StreamDirection::write);
    const auto& source = streams_.at(chunk.source->stream);
    require(source.direction == StreamDirection::read && chunk.source->index < source.chunks);
  }

  void found(const Finding& finding) {
    if (const auto* chunk = std::get_if<ChunkFinding>(&finding)) {
      ++chunks_out_;
      require(!chunk->since_source || *chunk->since_source >= 0);
    } else if (const auto* gap = std::get_if<GapFinding>(&finding)) {
      require(gap->upstream >= 0 && gap->charged >= 0 && gap->process >= 0);
      require(gap->upstream + gap->charged + gap->process == gap->gap);
    }
  }

  std::map<std::uint64_t, Stream> streams_;
  std::uint64_t chunks_in_ = 0, chunks_out_ = 0;
  Attribution attribution_;
};

/// What a read or write moves: bytes of the input, or one of the messages that streams are made of.
std::span<const std::byte> message(std::uint8_t number) {
  static constexpr std::string_view kMessages[] = {
      "GET / HTTP/1.1\r\nHost: h\r\n\r\n",
      "POST / HTTP/1.1\r\nContent-Length: 3\r\n\r\nabc",
      "HEAD / HTTP/1.1\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n",
      "HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
      "data: a\n\n",
      "9\r\ndata: a\n\n\r\n",
      "9\r\ndata: b\n\n\r\n9\r\ndata: c\n\n\r\n",
      "e\r\ndata: [DONE]\n\n\r\n",
      "0\r\n\r\n",
  };
  const auto text = kMessages[number % std::size(kMessages)];
  return std::as_bytes(std::span(text.data(), text.size()));
}

void move(StreamTracker& tracker, std::uint8_t what, std::span<const std::byte> bytes, Ns now) {
  Io io{};
  io.begin = now - 1;
  io.end = now;
  io.pid = 1;
  io.tid = 1 + (what >> 1 & 1);
  io.direction = what & 1 ? Direction::write : Direction::read;
  io.layer = what & 4 ? Layer::tls : Layer::socket;
  io.connection = 1 + (what >> 3 & 3) + (what & 4 ? 100 : 0);
  io.socket = what & 4 ? 0 : io.connection;
  io.result = static_cast<std::int64_t>(bytes.size()) + (what & 0x20 ? 7 : 0);
  io.last = true;
  io.payload = bytes;
  if (what & 0x40) io.woke = now - 3;
  if (io.direction == Direction::read && what & 0x80) {
    io.sequence_end = static_cast<std::uint32_t>(now * 16);
    tracker.arrival({now - 2, io.socket, *io.sequence_end});
  }
  tracker.io(io);
}

void happen(StreamTracker& tracker, std::uint8_t what, Ns now) {
  const std::uint32_t tid = 1 + (what >> 3 & 1);
  const std::uint64_t socket = 1 + (what >> 3 & 3);
  switch (what % 8) {
    case 0:
      return tracker.wait({now, 1, tid});
    case 1:
      return tracker.lock_slept({now - 1, now, 1, tid});
    case 2:
      return tracker.socket_seen({now, 1, socket, 0, "peer"});
    case 3:
      return tracker.socket_closed({now, socket, what & 0x40 ? 104 : 0, (what & 0x80) != 0});
    case 4:
      return tracker.tls_freed({now, 1, socket + 100});
    case 5: {
      Io io{};
      io.begin = io.end = now;
      io.pid = 1;
      io.tid = tid;
      io.direction = what & 0x80 ? Direction::write : Direction::read;
      io.layer = Layer::socket;
      io.connection = io.socket = socket;
      io.result = what & 0x40 ? -104 : 0;
      io.last = true;
      return tracker.io(io);
    }
    case 6:
      return tracker.records_lost();
    default:
      return what > 0xF0 ? tracker.process_ended(1, now) : void();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  Checker checker;
  StreamTracker tracker(checker);
  Ns now = 10;
  std::size_t at = 0;
  while (at + 2 <= size) {
    const auto what = data[at];
    const auto count = data[at + 1];
    at += 2;
    now += 1 + count % 16;
    if (count < 64) {
      happen(tracker, what, now);
    } else if (count < 192) {
      move(tracker, what, message(count), now);
    } else {
      const auto length = std::min<std::size_t>(count - 191, size - at);
      move(tracker, what, std::as_bytes(std::span(data + at, length)), now);
      at += length;
    }
    tracker.take_streaming();
  }
  tracker.finish(now);
  checker.finish(now);
  return 0;
}
