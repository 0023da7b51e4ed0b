// SPDX-License-Identifier: Apache-2.0
//
// Ciphertext in two ways. The records of any bytes, in whatever pieces they are fed, are those that
// a reading of the whole finds, up to the first place that is no record. And whatever a process does
// with sockets and TLS objects, as the input says, the timeline of it holds together: chunks and ends
// belong to streams that are open, and a connection is told as unread once at most.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <map>
#include <set>
#include <span>
#include <variant>
#include <vector>

#include "stream/stream_tracker.h"
#include "stream/tls_record_log.h"

namespace {

using gcause::Ns;
using Bytes = std::span<const std::byte>;

void require(bool condition) {
  if (!condition) std::abort();
}

struct Found {
  unsigned type;
  unsigned length;
};

unsigned at(Bytes bytes, std::size_t index) { return std::to_integer<unsigned>(bytes[index]); }

/// By RFC 8446, section 5.1, and the limit of RFC 5246, section 6.2.3, on all bytes at once.
std::vector<Found> records_of(Bytes bytes) {
  std::vector<Found> found;
  for (std::size_t begin = 0; begin + 5 <= bytes.size();) {
    const Found record{at(bytes, begin), at(bytes, begin + 3) << 8 | at(bytes, begin + 4)};
    const bool is_head = record.type >= 20 && record.type <= 24 && at(bytes, begin + 1) == 3 &&
                         at(bytes, begin + 2) <= 4;
    if (!is_head || record.length > (1 << 14) + 2048 || begin + 5 + record.length > bytes.size()) {
      break;
    }
    found.push_back(record);
    begin += 5 + record.length;
  }
  return found;
}

void check_log(Bytes bytes, std::size_t piece) {
  const auto expected = records_of(bytes);
  gcause::TlsRecordLog log;
  std::uint64_t seen = 0;
  for (std::size_t from = 0; from < bytes.size(); from += piece) {
    log.feed(bytes.subspan(from, std::min(piece, bytes.size() - from)), {});
    require(log.end() >= seen && log.end() - log.first() <= 256);
    for (auto number = std::max(seen, log.first()); number < log.end(); ++number) {
      if (number >= expected.size()) break;  // behind a place that is no record
      require(log.at(number).type == expected[number].type);
      require(log.at(number).length == expected[number].length);
      require(log.at(number).data == (expected[number].type == 23));
    }
    seen = log.end();
  }
  require(seen >= expected.size());
}

/// The timeline, held to account.
class Auditor : public gcause::TimelineConsumer {
 public:
  void consume(const gcause::TimelineEvent& event) override {
    if (const auto* began = std::get_if<gcause::StreamBegan>(&event)) {
      require(open_.emplace(began->id, 0).second);
    } else if (const auto* chunk = std::get_if<gcause::ChunkRead>(&event)) {
      require(open_.contains(chunk->stream) && open_[chunk->stream]++ == chunk->index);
    } else if (const auto* ended = std::get_if<gcause::StreamEnded>(&event)) {
      require(open_.erase(ended->id) == 1);
    } else if (const auto* unread = std::get_if<gcause::TlsUnread>(&event)) {
      require(unread->records >= 3 && unread->begin <= unread->end);
      require(unread->longest_silence >= 0 && unread->longest_unread >= 0);
    }
  }
  void at_end() const { require(open_.empty()); }

 private:
  std::map<std::uint64_t, std::uint32_t> open_;
};

/// A process with a few sockets, TLS objects and threads.
class Process {
 public:
  explicit Process(Bytes script) : script_(script) {}

  void run() {
    while (!script_.empty()) step();
    tracker_.finish(now_);
    auditor_.at_end();
  }

 private:
  unsigned next() {
    const unsigned value = script_.empty() ? 0 : at(script_, 0);
    if (!script_.empty()) script_ = script_.subspan(1);
    return value;
  }

  /// A record of some length, or, seldom, bytes that are none.
  std::vector<std::byte> ciphertext(unsigned shape) {
    const unsigned length = shape % 7 * 40 + shape % 3;
    std::vector<std::byte> bytes(5 + length, std::byte{0xa5});
    const unsigned type = shape % 11 == 0 ? 20 + shape % 5 : 23;
    const unsigned head[] = {type, 3, shape % 31 == 0 ? 9u : 3u, length >> 8, length & 0xff};
    for (std::size_t i = 0; i < 5; ++i) bytes[i] = static_cast<std::byte>(head[i]);
    return bytes;
  }

  void step() {
    const unsigned what = next(), shape = next();
    const std::uint64_t socket = 1 + shape % 3, tls = 100 + what / 16 % 3;
    now_ += 1 + static_cast<Ns>(shape) * gcause::kMillisecond;
    gcause::Io io{};
    io.begin = now_ - 1;
    io.end = now_;
    io.pid = 1;
    io.tid = 10 + what / 64;
    io.last = true;
    io.direction = what % 2 ? gcause::Direction::write : gcause::Direction::read;
    const auto bytes = ciphertext(shape);
    io.payload = bytes;
    io.result = static_cast<std::int64_t>(bytes.size());
    switch (what % 16) {
      case 0:
        tracker_.socket_seen({now_, 1, socket, sequence_[socket], "peer"});
        return;
      case 1:
        tracker_.socket_closed({now_, socket, static_cast<int>(shape % 2) * 104, shape % 4 != 0});
        return;
      case 2:
        tracker_.tls_freed({now_, 1, tls});
        return;
      case 3:
        tracker_.wait({now_, 1, io.tid});
        return;
      case 4:
        tracker_.records_lost();
        return;
      case 5:
        tracker_.tls_caller({now_, 1, socket, 5, {1, 2}});
        return;
      case 6:
      case 7:
        io.layer = gcause::Layer::tls;
        io.connection = tls;
        io.payload = io.payload.subspan(0, bytes.size() > 30 ? bytes.size() - 22 : 0);
        io.result = static_cast<std::int64_t>(io.payload.size());
        break;
      default:
        io.layer = gcause::Layer::socket;
        io.connection = io.socket = socket;
        io.inside_tls = what % 16 == 8;
        if (io.inside_tls) io.payload = {};
        if (what % 16 == 10 && shape % 8 == 0) io.result = 0;
        if (io.direction == gcause::Direction::read && io.result > 0) {
          sequence_[socket] += static_cast<std::uint32_t>(io.result);
          io.sequence_end = sequence_[socket];
          if (shape % 5 != 0) tracker_.arrival({now_ - 1, socket, sequence_[socket]});
        }
    }
    tracker_.io(io);
    (void)tracker_.take_streaming();
    (void)tracker_.take_unread();
  }

  Bytes script_;
  Ns now_ = 1;
  std::map<std::uint64_t, std::uint32_t> sequence_;
  Auditor auditor_;
  gcause::StreamTracker tracker_{auditor_};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  check_log(bytes, 1 + data[0] % 64);
  check_log(bytes, std::max<std::size_t>(1, bytes.size()));
  Process(bytes).run();
  return 0;
}
