// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "attribution/finding.h"

namespace gcause {

/// The p99 budget of the streams of one direction over time: was it kept in the last minute, in the
/// last five, and would it have been without the collector.
///
/// Windows of each length end every kWindowStep, counted from `begin`. The first of a length ends
/// when that much has been recorded, the last with the recording, wherever that falls. A gap
/// belongs to every window (from, to] that holds its end. Quantiles are exact; kept for them is
/// what ended in the newest five minutes, 24 bytes a gap.
class BudgetWindows {
 public:
  static constexpr std::array kLengths = {60 * kSecond, 300 * kSecond};
  /// With fewer gaps the nearest-rank p99 is the longest of them, so a single one would break it.
  static constexpr std::uint64_t kFewestGaps = 100;

  using Handler = std::function<void(const WindowFinding&)>;

  /// Windows are handed out when they are judged; of those without a gap that follow on each other
  /// only the first, if one with gaps was before.
  BudgetWindows(std::uint32_t pid, StreamDirection direction, const Ns& budget, Handler handler)
      : pid_(pid), direction_(direction), budget_(budget), handler_(std::move(handler)) {}

  /// The recording starts here; without it, where the first gap does. Only the first call counts.
  void begin(Ns at);

  /// A gap that ended at `end`, in any order. One that comes when windows with its end have been
  /// judged counts in those to come.
  void add(Ns end, Ns gap, Ns but_for);

  /// Whether a window ends by `time`.
  bool due(Ns time) const { return start_ && time >= next_end_; }

  /// All gaps that ended by `time` have been added: judges the windows that end by then.
  void advance(Ns time);

  /// Nothing more will come: judges the last windows, which end at `at`, or with the newest gap.
  void finish(std::optional<Ns> at);

  /// One for each length, and one for the whole recording, whose figures are given.
  std::vector<WindowTotals> totals(const Distribution& gap, const Distribution& but_for) const;

 private:
  struct Gap {
    Ns end;
    Ns gap;
    Ns but_for;
  };

  struct Length {
    Ns length;
    WindowTotals totals = {};
    WindowFinding last = {};
  };

  void judge(Length& length, Ns end);
  void skip_silence(Ns up_to);
  bool is_silent() const;
  WindowFinding window(Ns from, Ns to) const;
  void set_state(WindowFinding& window) const;
  static void count(WindowTotals& totals, const WindowFinding& window);

  std::uint32_t pid_;
  StreamDirection direction_;
  const Ns& budget_;
  Handler handler_;
  std::optional<Ns> start_;
  Ns next_end_ = 0;
  Ns newest_ = 0;
  std::deque<Gap> gaps_;  ///< by end; only those that a window to come may hold
  std::array<Length, kLengths.size()> lengths_{Length{kLengths[0]}, Length{kLengths[1]}};
};

}  // namespace gcause
