// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "recording/timeline.h"
#include "stream/http2_frames.h"

namespace gcause {

/// Watches a connection of which it is not known what it speaks, until it turns out to be HTTP/2.
class Http2Detector {
 public:
  /// Whether `bytes`, the next ones of a direction, together with `held`, are HTTP/2.
  bool sees(StreamDirection direction, std::span<const std::byte> bytes);

  /// Bytes of the direction passed unseen.
  void skipped(StreamDirection direction) { of(direction) = {{}, 0, true}; }

  /// The newest bytes before those that `sees` was asked about, where they are too few to tell: a
  /// frame or the preface may begin with them.
  std::span<const std::byte> held(StreamDirection direction) const {
    const Way& way = ways_[static_cast<std::size_t>(direction)];
    return std::span(way.held).first(way.size);
  }

  /// Bytes of the direction passed that are not held.
  bool missed(StreamDirection direction) const {
    return ways_[static_cast<std::size_t>(direction)].missed;
  }

 private:
  struct Way {
    std::array<std::byte, Http2Frame::kHeader - 1> held{};
    std::uint8_t size = 0;
    bool missed = false;
  };

  Way& of(StreamDirection direction) { return ways_[static_cast<std::size_t>(direction)]; }

  std::array<Way, 2> ways_;  ///< by StreamDirection
};

}  // namespace gcause
