// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>

#include "attribution/finding.h"
#include "recording/timeline.h"

namespace gcause {

/// What was seen so far, over all processes.
struct Progress {
  std::uint64_t chunks = 0;
  std::uint64_t pauses = 0;
  std::uint64_t streams = 0;
  Ns worst_gap = 0;
  std::optional<Verdict> worst_verdict;
  std::uint64_t lost = 0;
};

/// Says for each gap which part of it was the upstream's, the pauses' and the process's own, and
/// who is to blame where it exceeds the budget. The words and formulas are those of
/// docs/architecture.md: delivery, charged, upstream, process, but-for.
///
/// Takes the timeline in order, hands out findings; reads no clock. Findings of one stream leave in
/// order. A gap leaves when its reading thread has waited again, as `held` is known only then.
class Attribution : public TimelineConsumer {
 public:
  using FindingHandler = std::function<void(const Finding&)>;

  /// `budget` takes the place of the one that the session names.
  explicit Attribution(FindingHandler handler, std::optional<Ns> budget = std::nullopt);
  ~Attribution() override;

  void consume(const TimelineEvent& event) override;

  /// Hands out what is still pending, then one summary per process. Called once.
  void finish();

  const Progress& progress() const { return progress_; }

 private:
  class Process;

  Process& process(std::uint32_t pid);

  FindingHandler handler_;
  std::optional<Ns> budget_override_;
  Ns budget_ = 100 * kMillisecond;
  std::map<std::uint32_t, std::unique_ptr<Process>> processes_;
  Progress progress_;
};

/// The verdict on a gap above `budget`, by the table of docs/architecture.md.
Verdict judge(const GapFinding& gap, Ns budget);

}  // namespace gcause
