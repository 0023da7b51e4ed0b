// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "stream/tls_record_log.h"
#include "util/time.h"

namespace gcause {

/// Finds the socket behind a TLS object that reads from memory, as event loops use it: the library
/// never sees the socket, and other connections may be read between a socket's ciphertext and the
/// read of its plaintext.
///
/// A read of n bytes of plaintext takes one record of n bytes plus a constant that the cipher
/// gives. So every socket whose records cannot have carried the reads so far drops out; the one
/// that is left is the socket. Until then an arrival is told only where all that are left agree on
/// it.
class TlsMatch {
 public:
  /// Records of a socket by its cookie; nullptr if it is gone.
  using Records = std::function<const TlsRecordLog*(std::uint64_t socket)>;

  /// Offers a socket that carries TLS and is not known to belong to another object. Its records
  /// from number `from` on may be this object's.
  void offer(std::uint64_t socket, std::uint64_t from);

  /// This socket has turned out to belong to another object.
  void withdraw(std::uint64_t socket);

  /// The object handed over `count` bytes. Returns when the last byte of their record arrived;
  /// nothing if that is not known.
  std::optional<Ns> take(std::uint64_t count, const Records& records);

  /// The socket, once it is certain.
  std::optional<std::uint64_t> socket() const;

  /// Whether reads have agreed with the records of this socket so far.
  bool has_matched(std::uint64_t socket) const;

  /// No socket is left that could be it: offer all again.
  bool wants_offers() const { return candidates_.empty(); }

  /// Calls `visit` with each socket that could be it.
  void for_each(const std::function<void(std::uint64_t socket)>& visit) const {
    for (const auto& candidate : candidates_) visit(candidate.socket);
  }

 private:
  static constexpr int kCertainAfter = 4;  ///< reads that only one socket could have carried

  struct Candidate {
    std::uint64_t socket;
    std::uint64_t next;                     ///< number of the first record that was not taken
    std::optional<std::uint32_t> overhead;  ///< bytes that a record is longer than its plaintext
    std::uint64_t left;                     ///< plaintext of the record at hand that was not taken
    std::optional<Ns> arrival;              ///< of the record at hand
    int matches;
  };

  static bool fits(Candidate& candidate, std::uint64_t count, const TlsRecordLog& log);

  std::vector<Candidate> candidates_;
};

}  // namespace gcause
