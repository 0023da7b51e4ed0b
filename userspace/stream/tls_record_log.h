// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>

#include "stream/arrival_log.h"
#include "util/time.h"

namespace gcause {

/// Finds the TLS records (RFC 8446, section 5.1) in the ciphertext that a program reads from a
/// socket itself and hands to its TLS library, and says for each read of plaintext when the record
/// that carried it was complete.
class TlsRecordLog {
 public:
  /// Whether these bytes, the first of a connection or of a read, look like a record's head.
  static bool looks_like_record(std::span<const std::byte> bytes);

  /// The next ciphertext.
  void feed(std::span<const std::byte> bytes, const PieceArrival& arrival);

  /// `count` bytes passed that cannot be fed.
  void skip(std::uint64_t count);

  /// The library handed over `count` bytes of plaintext: when the last byte of their record
  /// arrived. Nothing if that is not known.
  std::optional<Ns> take(std::uint64_t count);

  /// The library wants more: every complete record has been consumed.
  void drained();

  std::size_t waiting() const { return records_.size(); }

 private:
  static constexpr std::size_t kHeadBytes = 5;
  static constexpr std::size_t kMaxRecords = 4096;
  static constexpr std::uint32_t kMinOverhead = 16;  ///< an authentication tag
  static constexpr std::uint32_t kMaxOverhead = 64;  ///< tag, explicit nonce, type, some padding

  struct Record {
    bool data;             ///< application data, as far as the head tells
    std::uint32_t length;  ///< bytes behind the head
    std::optional<Ns> arrival;
  };

  bool lost_ = false;
  std::uint8_t head_[kHeadBytes] = {};
  std::size_t head_filled_ = 0;
  std::uint32_t body_left_ = 0;
  std::deque<Record> records_;
  std::uint64_t current_left_ = 0;  ///< plaintext of the record at hand that was not taken yet
  std::optional<Ns> current_arrival_;
};

}  // namespace gcause
