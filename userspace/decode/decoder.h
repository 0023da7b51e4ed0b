// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "decode/event.h"

namespace gcause {

/// Turns records of the kernel side into events in the order of time.
///
/// Records reach the ring buffer nearly in order: a program can be preempted between taking the
/// time and reserving its record. So records wait in a window before they are handed on.
class Decoder {
 public:
  using EventHandler = std::function<void(const Event&)>;

  /// `window`: how much later than a younger record an older one may still come.
  explicit Decoder(EventHandler handler, Ns window = 100 * kMillisecond)
      : handler_(std::move(handler)), window_(window) {}

  /// Takes whole records, each at a multiple of 8 bytes, as `Loader::drain` leaves them. Records
  /// of a kind that this version does not know, or that are too short for their kind, are counted.
  void feed(std::span<const std::byte> records);

  /// Hands on, in order, what is older than `newest seen - window` or than `up_to`.
  void advance(std::optional<Ns> up_to = std::nullopt);

  /// Hands on all that is left.
  void finish();

  /// Events handed on so far.
  std::uint64_t events() const { return events_; }

  /// Bytes that the target read or wrote and the kernel side copied, of all events so far.
  std::uint64_t payload_bytes() const { return payload_bytes_; }

  /// Records that could not be understood.
  std::uint64_t malformed() const { return malformed_; }

 private:
  struct Pending {
    Ns at;
    std::size_t offset;  ///< into arena_
  };

  void move_read(std::size_t offset);
  void emit(const Pending& pending);
  void release(Ns up_to);

  EventHandler handler_;
  Ns window_;
  std::vector<std::byte> arena_;
  std::vector<Pending> pending_;
  bool sorted_ = true;
  Ns newest_ = 0;
  std::uint64_t events_ = 0;
  std::uint64_t payload_bytes_ = 0;
  std::uint64_t malformed_ = 0;
};

}  // namespace gcause
