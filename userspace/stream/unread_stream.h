// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "recording/timeline.h"
#include "stream/json_array_scan.h"

namespace gcause {

/// A response that may carry output bit by bit in a form that is not read. Tells the timeline of it
/// when it is over.
class UnreadStream {
 public:
  /// `told`: what is known of it at its begin.
  UnreadStream(TimelineConsumer& timeline, StreamUnread told);

  /// Takes bytes of it that a read brought which returned at `at`.
  void feed(std::span<const std::byte> bytes, Ns at);

  /// `count` bytes of it passed unseen.
  void skip(std::uint64_t count);

  /// It is over. A JSON array that was sent in one go is not told of: any answer may be one.
  void end(Ns at);

 private:
  /// Elements that came with the end of a read, each with that of another one.
  static constexpr std::uint32_t kSingleElements = 3;

  void end_read();

  TimelineConsumer& timeline_;
  StreamUnread told_;
  std::optional<Ns> read_at_;  ///< the newest read
  JsonArrayScan array_;
  std::uint64_t elements_ = 0;  ///< by the end of the read before
  std::uint32_t single_elements_ = 0;
};

}  // namespace gcause
