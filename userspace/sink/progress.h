// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "attribution/finding.h"

namespace gcause {

struct WorstGap {
  Ns gap;
  std::optional<Verdict> verdict;
};

/// What a running recording has seen so far.
struct ProgressFigures {
  std::uint64_t chunks = 0;
  std::uint64_t pauses = 0;
  std::uint64_t streams = 0;
  std::optional<WorstGap> worst_gap;
  std::uint64_t lost = 0;
  Ns elapsed = 0;
};

/// The figures as one line without its end: "gcause: 12 s, 10 streams, 10,240 chunks, ...".
std::string format_progress(const ProgressFigures& figures);

/// One line on standard error that is rewritten in place. Where standard error is no terminal it
/// stays silent, so that logs hold nothing of it.
class ProgressLine {
 public:
  ProgressLine();
  /// Writes to `fd`, which stays the caller's, as to a terminal or not at all.
  ProgressLine(int fd, bool terminal);
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void update(const ProgressFigures& figures);

  /// Wipes the line, before something else is printed and at the end.
  void clear();

 private:
  int fd_;
  bool terminal_;
  bool shown_ = false;
};

}  // namespace gcause
