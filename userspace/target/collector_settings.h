// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "recording/timeline.h"
#include "target/layout.h"
#include "target/process_memory.h"
#include "util/time.h"

namespace gcause {

/// How far the walk along the list of frozen objects goes before it gives up.
struct WalkLimits {
  std::uint64_t objects = 20'000'000;
  Ns time = 500 * kMillisecond;  ///< on the CPU
};

/// The number of objects in a list of the collector whose head is at this address; 0 if it is
/// empty. Nothing where the list does not close within the limits, or its links contradict each
/// other, as they may while the program changes it.
std::optional<std::int64_t> count_objects(Memory& memory, std::uint64_t head,
                                          const WalkLimits& limits = {});

/// The settings of one interpreter's collector, read at one time.
struct SettingsReading {
  std::int64_t interpreter;
  CollectorSettings gc;
};

/// Watches how the collector of each interpreter of one process is set, at most 64 of them (before
/// 3.9 all share one, which counts as that of interpreter 0).
class SettingsWatch {
 public:
  /// `runtime` is the address of _PyRuntime in `memory`.
  SettingsWatch(std::unique_ptr<Memory> memory, const python_layout& layout, std::uint64_t runtime,
                WalkLimits limits = {})
      : memory_(std::move(memory)), layout_(layout), runtime_(runtime), limits_(limits) {}

  /// A look at each interpreter, some microseconds long. Returns a full reading of those that are
  /// new or were set anew since the last look; each change is read once more by the next look, so
  /// that what was still under way is told, too. `frozen` is counted anew in a reading, which takes
  /// a hundred milliseconds for a million objects; over 10 seconds at most a twentieth of a CPU
  /// goes into it, so a program that changes such a collector all the time is told late. `now` is
  /// on CLOCK_MONOTONIC.
  std::vector<SettingsReading> look(Ns now);

 private:
  /// What is compared between looks: whatever a program sets, and no count.
  struct State {
    bool enabled = false;
    std::array<std::int32_t, 3> thresholds = {};
    std::array<std::uint64_t, 2> frozen_ends = {};  ///< first and last of the list

    bool operator==(const State&) const = default;
  };

  struct Glance {
    std::int64_t interpreter;
    std::uint64_t frozen_head;
    State state;
    std::array<std::int32_t, 3> counts;
  };

  struct Known {
    State state;
    CollectorSettings gc;
    bool settled = false;  ///< read again after the look that saw the change
  };

  std::vector<Glance> glances();
  std::optional<Glance> glance(std::int64_t interpreter, std::uint64_t gc);
  CollectorSettings full(const Glance& glance);

  std::unique_ptr<Memory> memory_;
  python_layout layout_;
  std::uint64_t runtime_;
  WalkLimits limits_;
  std::map<std::int64_t, Known> known_;  ///< by interpreter
  Ns next_reading_ = 0;
};

}  // namespace gcause
