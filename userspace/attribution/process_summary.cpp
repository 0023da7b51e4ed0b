// SPDX-License-Identifier: Apache-2.0
#include "attribution/process.h"

namespace gcause {

StreamTotals Attribution::Process::totals_of(Figures& figures) const {
  StreamTotals totals;
  totals.streams = figures.streams;
  totals.chunks = figures.chunks;
  totals.gap = figures.gaps.distribution();
  totals.but_for = figures.but_for.distribution();
  totals.first_chunk = figures.first_chunks.distribution();
  totals.first_chunk_but_for = figures.first_chunks_but_for.distribution();
  totals.verdicts = figures.verdicts;
  totals.over_budget = figures.over_budget;
  totals.unjudged = figures.unjudged;
  totals.gaps_with_loss = figures.gaps_with_loss;
  totals.budget_kept = totals.gap.p99 <= budget_;
  totals.but_for_kept = totals.but_for.p99 <= budget_;
  totals.since_source = figures.since_source.distribution();
  return totals;
}

/// Of all streams: the quantiles over the gaps of both directions. A budget is kept where it is
/// kept in each of them, as the many good gaps of one could hide the bad ones of the other.
void Attribution::Process::add_up(SummaryFinding& summary) {
  Figures all(*this, StreamDirection::read);
  bool budget_kept = true;
  bool but_for_kept = true;
  for (auto& figures : figures_) {
    all.gaps.add(figures.gaps);
    all.but_for.add(figures.but_for);
    all.first_chunks.add(figures.first_chunks);
    all.first_chunks_but_for.add(figures.first_chunks_but_for);
    all.since_source.add(figures.since_source);
    all.streams += figures.streams;
    all.chunks += figures.chunks;
    all.over_budget += figures.over_budget;
    all.unjudged += figures.unjudged;
    all.gaps_with_loss += figures.gaps_with_loss;
    for (const auto& [verdict, count] : figures.verdicts) all.verdicts[verdict] += count;
  }
  for (const auto& [direction, totals] : summary.by_direction) {
    budget_kept &= totals.budget_kept;
    but_for_kept &= totals.but_for_kept;
  }
  static_cast<StreamTotals&>(summary) = totals_of(all);
  summary.budget_kept = budget_kept;
  summary.but_for_kept = but_for_kept;
}

SummaryFinding Attribution::Process::summary() {
  SummaryFinding summary;
  summary.pid = pid_;
  summary.pauses = pauses_.totals();
  for (auto& [generation, durations] : by_generation_) {
    summary.by_generation[generation] = durations.totals();
  }
  for (auto& figures : figures_) {
    const bool is_seen = figures.streams > 0;
    if (is_seen) summary.by_direction[figures.direction] = totals_of(figures);
  }
  add_up(summary);
  for (auto& figures : figures_) {
    const bool is_told = figures.streams > 0 || (summary.streams == 0 && &figures == &figures_[0]);
    if (!is_told) continue;
    const auto windows =
        figures.windows.totals(figures.gaps.distribution(), figures.but_for.distribution());
    summary.windows.insert(summary.windows.end(), windows.begin(), windows.end());
  }
  summary.lost = lost_;
  summary.tls_unread = tls_unread_count_;
  return summary;
}

}  // namespace gcause
