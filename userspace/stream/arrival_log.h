// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "util/queue.h"
#include "util/time.h"

namespace gcause {

/// Whether TCP sequence number `a` lies before `b` (RFC 9293, section 3.4: modulo 2^32).
inline bool sequence_before(std::uint32_t a, std::uint32_t b) {
  return static_cast<std::int32_t>(a - b) < 0;
}

/// When the bytes of one socket arrived. Holds what has arrived and was not read yet.
class ArrivalLog {
 public:
  /// Bytes up to this sequence number had arrived before anybody looked: their time is not known.
  void begin(std::uint32_t sequence);

  /// The queue grew up to `sequence` at `at`.
  void add(std::uint32_t sequence, Ns at);

  /// Arrivals may be missing: nothing is known up to the next one.
  void forget();

  /// When the byte in front of `sequence` arrived; nothing if that is not known.
  std::optional<Ns> at(std::uint32_t sequence) const;

  /// The bytes behind `sequence` up to which one arrived together, or share that their arrival is
  /// not known; nothing, if all do.
  std::optional<std::uint32_t> run_end(std::uint32_t sequence) const;

  /// The program has read up to `sequence`: older entries are dropped.
  void consumed(std::uint32_t sequence);

  std::size_t size() const { return entries_.size(); }

 private:
  static constexpr std::size_t kMaxEntries = 65536;

  struct Entry {
    std::uint32_t sequence;
    Ns at;
  };

  std::optional<std::uint32_t> known_from_;  ///< bytes behind this number are accounted for
  Queue<Entry> entries_;
};

/// When the bytes of one piece of a read arrived: by their sequence numbers, or all at one time.
struct PieceArrival {
  const ArrivalLog* log = nullptr;
  std::uint32_t first = 0;  ///< sequence number of the piece's first byte
  std::optional<Ns> fixed;

  /// When the byte in front of index `end` of the piece arrived; nothing if that is not known.
  std::optional<Ns> at(std::size_t end) const {
    return log ? log->at(first + static_cast<std::uint32_t>(end)) : fixed;
  }

  /// The bytes of the piece from index `begin` to index `end` arrived in runs: where the first of
  /// these ends. Neither 0 nor behind `end`, where there are bytes.
  std::size_t run_end(std::size_t begin, std::size_t end) const {
    const std::uint32_t sequence = first + static_cast<std::uint32_t>(begin);
    const auto behind = log ? log->run_end(sequence) : std::nullopt;
    return behind ? std::min<std::size_t>(begin + (*behind - sequence), end) : end;
  }
};

}  // namespace gcause
