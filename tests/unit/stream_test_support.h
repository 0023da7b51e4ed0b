// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "stream/stream_tracker.h"

namespace gcause::test {

inline std::string head(const std::string& framing = "Transfer-Encoding: chunked") {
  return "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n" +
         (framing.empty() ? "" : framing + "\r\n") + "\r\n";
}

/// One chunk of HTTP's chunked coding.
inline std::string framed(const std::string& body) {
  char size[20];
  std::snprintf(size, sizeof size, "%zx\r\n", body.size());
  return size + body + "\r\n";
}

inline std::string event(const std::string& data) { return "data: " + data + "\n\n"; }

/// A chunked piece that carries one event.
inline std::string token(const std::string& data) { return framed(event(data)); }

inline const std::string kLastPiece = "0\r\n\r\n";
inline const std::string kRequest = "POST /v1 HTTP/1.1\r\nHost: api.example\r\n\r\n{}";

/// A TLS record around `plaintext`, as long as TLS 1.3 makes it (RFC 8446, section 5.2).
inline std::string sealed(const std::string& plaintext, char type = 23) {
  const auto length = plaintext.size() + 17;
  return std::string{type, '\x03', '\x03', static_cast<char>(length >> 8),
                     static_cast<char>(length & 0xFF)} +
         std::string(length, '\xA5');
}

/// The machine under a StreamTracker: sockets with sequence numbers, threads that read, and the
/// timeline that comes of it. Times are whatever numbers the test likes.
class Machine : public TimelineConsumer {
 public:
  static constexpr std::uint32_t kPid = 1, kTid = 10;
  static constexpr std::uint64_t kSocket = 70, kTls = 0x7F00;

  std::uint32_t pid = kPid, tid = kTid;
  std::optional<std::uint32_t> run_delay;  ///< that reads carry
  std::optional<Ns> woke;                  ///< that writes carry
  std::uint64_t socket = kSocket;
  StreamTracker tracker{*this};
  std::vector<TimelineEvent> timeline;

  void consume(const TimelineEvent& event) override { timeline.push_back(event); }

  void seen(std::uint32_t sequence = 1'000, const std::string& peer = "10.0.0.1:80") {
    arrived_[socket] = read_[socket] = sequence;
    tracker.socket_seen({0, pid, socket, sequence, peer});
  }
  void arrives(std::size_t bytes, Ns at) {
    arrived_[socket] += static_cast<std::uint32_t>(bytes);
    tracker.arrival({at, socket, arrived_[socket]});
  }
  /// Bytes that pass without a record of their read.
  void passes(std::size_t bytes) { read_[socket] += static_cast<std::uint32_t>(bytes); }

  Io io_at(Ns at, Direction direction, const std::string& bytes) const {
    Io io{};
    io.begin = io.end = at;
    io.pid = pid;
    io.tid = tid;
    io.direction = direction;
    io.layer = Layer::socket;
    io.connection = io.socket = socket;
    io.result = static_cast<std::int64_t>(bytes.size());
    io.last = true;
    io.payload = std::as_bytes(std::span(bytes));
    io.run_delay = run_delay;
    if (direction == Direction::write) io.woke = woke;
    return io;
  }
  void writes(const std::string& bytes, Ns at) { tracker.io(io_at(at, Direction::write, bytes)); }
  void reads(const std::string& bytes, Ns at) {
    auto io = io_at(at, Direction::read, bytes);
    io.sequence_end = read_[socket] += static_cast<std::uint32_t>(bytes.size());
    tracker.io(io);
  }
  /// One read whose bytes come in records of `piece` bytes.
  void reads_in_pieces(const std::string& bytes, std::size_t piece, Ns at) {
    read_[socket] += static_cast<std::uint32_t>(bytes.size());
    for (std::size_t from = 0; from < bytes.size(); from += piece) {
      const auto part = bytes.substr(from, piece);
      auto io = io_at(at, Direction::read, part);
      io.result = static_cast<std::int64_t>(bytes.size());
      io.sequence_end = read_[socket];
      io.offset = static_cast<std::uint32_t>(from);
      io.last = from + piece >= bytes.size();
      tracker.io(io);
    }
  }
  /// A read of which only the first `copied` bytes were handed over.
  void reads_partly(const std::string& bytes, std::size_t copied, Ns at) {
    const auto part = bytes.substr(0, copied);
    auto io = io_at(at, Direction::read, part);
    io.result = static_cast<std::int64_t>(bytes.size());
    io.sequence_end = read_[socket] += static_cast<std::uint32_t>(bytes.size());
    tracker.io(io);
  }
  /// One write whose bytes come in records of `piece` bytes.
  void writes_in_pieces(const std::string& bytes, std::size_t piece, Ns at) {
    for (std::size_t from = 0; from < bytes.size(); from += piece) {
      const auto part = bytes.substr(from, piece);
      auto io = io_at(at, Direction::write, part);
      io.result = static_cast<std::int64_t>(bytes.size());
      io.offset = static_cast<std::uint32_t>(from);
      io.last = from + piece >= bytes.size();
      tracker.io(io);
    }
  }
  /// A write that took `count` bytes more than could be copied.
  void writes_uncopied(const std::string& bytes, std::size_t count, Ns at) {
    auto io = io_at(at, Direction::write, bytes);
    io.result += static_cast<std::int64_t>(count);
    tracker.io(io);
  }
  void write_fails(std::int64_t error, Ns at, bool inside_tls = false) {
    auto io = io_at(at, Direction::write, "");
    io.result = -error;
    io.inside_tls = inside_tls;
    tracker.io(io);
  }
  /// A read that gives 0 (the end) or -errno.
  void fails(std::int64_t result, Ns at) {
    auto io = io_at(at, Direction::read, "");
    io.result = result;
    tracker.io(io);
  }
  /// The TLS library reads the socket, inside a TLS call.
  void library_reads(std::size_t bytes, Ns at) {
    auto io = io_at(at, Direction::read, "");
    io.inside_tls = true;
    io.result = static_cast<std::int64_t>(bytes);
    io.sequence_end = read_[socket] += static_cast<std::uint32_t>(bytes);
    tracker.io(io);
  }
  void tls_reads(const std::string& plaintext, Ns begin, Ns end, std::uint64_t tls = kTls) {
    auto io = io_at(end, Direction::read, plaintext);
    io.begin = begin;
    io.layer = Layer::tls;
    io.connection = tls;
    io.socket = 0;
    tracker.io(io);
  }
  void tls_fails(Ns begin, Ns end, std::uint64_t tls = kTls) {
    auto io = io_at(end, Direction::read, "");
    io.begin = begin;
    io.layer = Layer::tls;
    io.connection = tls;
    io.socket = 0;
    io.result = -1;
    tracker.io(io);
  }
  void tls_writes(const std::string& plaintext, Ns at, std::uint64_t tls = kTls) {
    auto io = io_at(at, Direction::write, plaintext);
    io.layer = Layer::tls;
    io.connection = tls;
    io.socket = 0;
    tracker.io(io);
  }
  void waits(Ns at) { tracker.wait({at, pid, tid}); }
  void closed(Ns at, bool by_process, std::int32_t error = 0) {
    tracker.socket_closed({at, socket, error, by_process});
  }
  /// The peer's FIN comes.
  void peer_closes(Ns at) { tracker.socket_closed({at, socket, 0, false, true}); }

  template <typename E>
  std::vector<E> all() const {
    std::vector<E> found;
    for (const auto& event : timeline) {
      if (const auto* wanted = std::get_if<E>(&event)) found.push_back(*wanted);
    }
    return found;
  }
  std::vector<ChunkRead> chunks() const { return all<ChunkRead>(); }
  std::vector<StreamBegan> streams() const { return all<StreamBegan>(); }
  std::vector<StreamEnded> ends() const { return all<StreamEnded>(); }

  /// Of all chunks, -1 for what is not known.
  std::vector<Ns> arrivals() const {
    std::vector<Ns> times;
    for (const auto& chunk : chunks()) times.push_back(chunk.arrival.value_or(-1));
    return times;
  }
  std::vector<Ns> read_times() const {
    std::vector<Ns> times;
    for (const auto& chunk : chunks()) times.push_back(chunk.read);
    return times;
  }
  std::vector<Ns> wait_times() const {
    std::vector<Ns> times;
    for (const auto& wait : all<WaitBegan>()) times.push_back(wait.at);
    return times;
  }

 private:
  std::map<std::uint64_t, std::uint32_t> arrived_, read_;
};

}  // namespace gcause::test
