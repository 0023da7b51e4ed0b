// SPDX-License-Identifier: Apache-2.0
#include "stream/unread_tls.h"

#include <algorithm>

namespace gcause {
namespace {

// Content types, RFC 8446, section 5.1 and appendix B.1.
constexpr std::uint8_t kChangeCipherSpec = 20;
constexpr std::uint8_t kHandshake = 22;

/// Less is no request, but what keeps HTTP/2 going: a WINDOW_UPDATE has 13 bytes (RFC 9113, section
/// 6.9), a PING 17, to which the cipher adds 17 to 24.
constexpr std::uint32_t kLeastRequest = 48;

}  // namespace

void UnreadTls::wrote(std::span<const std::byte> bytes, std::uint64_t missing) {
  const auto from = written_.end();
  written_.feed(bytes, {});
  if (missing > 0) written_.skip(missing);
  for (auto number = std::max(from, written_.first()); number < written_.end(); ++number) {
    const auto& record = written_.at(number);
    if (record.type == kHandshake) {
      said_hello_ = true;
      // TLS 1.2: the Finished, encrypted, behind the change of the cipher.
      shook_hands_ = shook_hands_ || changed_cipher_;
    } else if (record.type == kChangeCipherSpec) {
      changed_cipher_ = true;
    } else if (record.data && said_hello_ && !shook_hands_) {
      shook_hands_ = true;  // TLS 1.3: the Finished looks like data
    } else if (record.data && record.length >= kLeastRequest) {
      begin_answer();
    }
  }
}

void UnreadTls::begin_answer() {
  if (stream_) end_stream(StreamEnd::done, seen_.end);
  asked_ = true;
  last_.reset();
  run_ = 0;
}

std::size_t UnreadTls::read(const TlsRecordLog& log, std::uint64_t from, const CiphertextRead& read,
                            const std::optional<std::string>& peer,
                            const std::function<bool()>& is_unread) {
  std::size_t chunks = 0;
  for (auto number = std::max(from, log.first()); number < log.end(); ++number) {
    const auto& record = log.at(number);
    if (!record.data || (said_hello_ && !asked_)) continue;
    const bool begins_group = count(record, read);
    if (!stream_ && begins_group && is_run() && is_unread()) begin_stream(read, peer);
    if (!stream_) continue;
    stream_->bytes += record.length;
    if (!begins_group) continue;
    timeline_.consume(ChunkRead{stream_->id, stream_->chunks++, pid_, read.tid, record.length,
                                read.at, record.arrival, read.run_delay});
    ++chunks;
  }
  return chunks;
}

/// Whether the record arrived by itself.
bool UnreadTls::count(const TlsRecordLog::Record& record, const CiphertextRead& read) {
  const Ns when = std::max(record.arrival.value_or(read.at), last_.value_or(0));
  if (seen_.records++ == 0) seen_.begin = read.at;
  seen_.end = read.at;
  seen_.bytes += record.length;
  seen_.longest_unread = std::max(seen_.longest_unread, read.at - when);
  const std::optional<Ns> silence = last_ ? std::optional(when - *last_) : std::nullopt;
  last_ = when;
  if (silence && *silence <= kTogether) {
    group_bytes_ += record.length;
    return false;
  }
  if (silence) seen_.longest_silence = std::max(seen_.longest_silence, *silence);
  if (!silence || *silence > kLongestGap || group_bytes_ > kLargest) {
    run_ = 0;
    run_begin_ = when;
  }
  ++run_;
  group_bytes_ = record.length;
  return true;
}

/// The newest record follows on a run of others.
bool UnreadTls::is_run() const { return run_ > kRun && *last_ - run_begin_ >= kRunAtLeast; }

void UnreadTls::begin_stream(const CiphertextRead& read, const std::optional<std::string>& peer) {
  stream_.emplace(Stream{next_stream_++});
  seen_.stream = stream_->id;
  StreamBegan began{};
  began.id = stream_->id;
  began.pid = pid_;
  began.direction = StreamDirection::read;
  began.peer = peer;
  began.tls = true;
  began.protocol = StreamProtocol::tls_records;
  began.begin = read.at;
  timeline_.consume(began);
}

void UnreadTls::end_stream(StreamEnd end, Ns at) {
  timeline_.consume(StreamEnded{stream_->id, pid_, at, end, std::nullopt, 0, stream_->bytes});
  stream_.reset();
}

void UnreadTls::ended(StreamEnd end, Ns at) {
  if (stream_) end_stream(end == StreamEnd::truncated ? StreamEnd::eof : end, at);
}

}  // namespace gcause
