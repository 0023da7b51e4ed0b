// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "stream/arrival_log.h"
#include "util/queue.h"
#include "util/time.h"

namespace gcause {

/// Finds the TLS records (RFC 8446, section 5.1) in the ciphertext that a program reads from a
/// socket itself, and keeps the newest of them until TlsMatch has paired them with reads of
/// plaintext.
class TlsRecordLog {
 public:
  struct Record {
    bool data;             ///< application data, as far as the head tells
    std::uint32_t length;  ///< bytes behind the head
    std::optional<Ns> arrival;
    std::uint8_t type = 0;  ///< content type
  };

  /// Whether these bytes, the first of a connection or of a read, look like a record's head.
  static bool looks_like_record(std::span<const std::byte> bytes);

  /// The next ciphertext.
  void feed(std::span<const std::byte> bytes, const PieceArrival& arrival);

  /// `count` bytes passed that cannot be fed. Where a record ends with them, its arrival is not
  /// known.
  void skip(std::uint64_t count);

  /// Forgets all records; what comes next is numbered on.
  void forget();

  /// Records are numbered from 0 in the order of the connection. Those from `first` to `end - 1`
  /// are kept.
  std::uint64_t first() const { return end_ - records_.size(); }
  std::uint64_t end() const { return end_; }
  const Record& at(std::uint64_t number) const { return records_[number - first()]; }

  /// Its begin was seen, and is that of TLS 1.3: behind the change of the cipher all records are
  /// application data from outside (RFC 8446, appendix D.4), where before it was a handshake's.
  bool is_tls13() const { return is_tls13_; }

 private:
  static constexpr std::size_t kHeadBytes = 5;
  static constexpr std::size_t kMaxRecords = 256;

  void complete(std::optional<Ns> arrival);

  bool lost_ = false;
  std::uint8_t head_[kHeadBytes] = {};
  std::size_t head_filled_ = 0;
  std::uint32_t body_left_ = 0;
  bool is_tls13_ = false;
  Queue<Record> records_;
  std::uint64_t end_ = 0;
};

}  // namespace gcause
