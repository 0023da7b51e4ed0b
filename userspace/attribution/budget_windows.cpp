// SPDX-License-Identifier: Apache-2.0
#include "attribution/budget_windows.h"

#include <algorithm>

#include "attribution/quantiles.h"

namespace gcause {
namespace {

/// A recording may name any instant: within these bounds no sum of them overflows.
Ns bounded(Ns time) { return std::clamp<Ns>(time, 0, Ns{1} << 61); }

}  // namespace

void BudgetWindows::begin(Ns at) {
  if (start_) return;
  start_ = newest_ = bounded(at);
  next_end_ = *start_ + kWindowStep;
}

void BudgetWindows::add(Ns end, Ns gap, Ns but_for) {
  begin(end - gap);
  end = bounded(end);
  newest_ = std::max(newest_, end);
  auto place = gaps_.end();
  while (place != gaps_.begin() && std::prev(place)->end > end) --place;
  gaps_.insert(place, {end, gap, but_for});
}

void BudgetWindows::advance(Ns time) {
  time = bounded(time);
  if (!start_) return;
  newest_ = std::max(newest_, time);
  while (next_end_ <= time) {
    if (is_silent()) {
      skip_silence(gaps_.empty() ? time : std::min(time, gaps_.front().end - 1));
      continue;
    }
    for (auto& length : lengths_) judge(length, next_end_);
    const Ns oldest = next_end_ - kLengths.back();
    while (!gaps_.empty() && gaps_.front().end <= oldest) gaps_.pop_front();
    next_end_ += kWindowStep;
  }
}

/// The windows that end next hold no gap, as those before them.
bool BudgetWindows::is_silent() const {
  return (gaps_.empty() || gaps_.front().end > next_end_) &&
         std::ranges::all_of(lengths_, [](const Length& l) { return l.last.gaps == 0; });
}

/// Counts the windows that end by `up_to`, none of which holds a gap. There can be very many: a
/// damaged recording may claim that years passed.
void BudgetWindows::skip_silence(Ns up_to) {
  const Ns ends = (up_to - next_end_) / kWindowStep + 1;
  for (auto& [length, totals, last] : lengths_) {
    const Ns not_full = std::max<Ns>(0, (*start_ + length - next_end_) / kWindowStep);
    const auto windows = static_cast<std::uint64_t>(std::max<Ns>(0, ends - not_full));
    totals.count += windows;
    totals.few += windows;
  }
  next_end_ += ends * kWindowStep;
}

void BudgetWindows::judge(Length& length, Ns end) {
  if (end - length.length < *start_) return;
  WindowFinding now = window(end - length.length, end);
  // The first one is all news; what a later one adds is what came behind the one before it.
  const bool first = length.totals.count == 0;
  now.news_from = first ? now.from : next_end_ - kWindowStep;
  now.changed =
      now.budget_kept != length.last.budget_kept || now.but_for_kept != length.last.but_for_kept;
  count(length.totals, now);
  if (now.gaps > 0 || length.last.gaps > 0) handler_(now);
  length.last = now;
}

WindowFinding BudgetWindows::window(Ns from, Ns to) const {
  const auto behind = [this](Ns time) {
    return std::ranges::upper_bound(gaps_, time, {}, &Gap::end);
  };
  Quantiles gaps;
  Quantiles but_for;
  for (auto it = behind(from), stop = behind(to); it != stop; ++it) {
    gaps.add(it->gap);
    but_for.add(it->but_for);
  }
  WindowFinding window;
  window.pid = pid_;
  window.direction = direction_;
  window.from = from;
  window.to = to;
  window.gaps = gaps.count();
  window.p99 = gaps.p99();
  window.but_for_p99 = but_for.p99();
  set_state(window);
  return window;
}

void BudgetWindows::set_state(WindowFinding& window) const {
  if (window.gaps < kFewestGaps) return;
  window.budget_kept = window.p99 <= budget_;
  window.but_for_kept = window.but_for_p99 <= budget_;
}

void BudgetWindows::count(WindowTotals& totals, const WindowFinding& window) {
  ++totals.count;
  if (!window.budget_kept) {
    ++totals.few;
    return;
  }
  const bool broken = !*window.budget_kept;
  totals.broken += broken;
  totals.broken_by_collector += broken && *window.but_for_kept;
  if (!totals.worst || window.p99 > totals.worst->p99) totals.worst = window;
}

void BudgetWindows::finish(std::optional<Ns> at) {
  if (!start_) return;
  const Ns end = at ? bounded(*at) : newest_;
  advance(end);
  newest_ = end;
  if (end <= next_end_ - kWindowStep) return;
  for (auto& length : lengths_) judge(length, end);
}

std::vector<WindowTotals> BudgetWindows::totals(const Distribution& gap,
                                                const Distribution& but_for) const {
  std::vector<WindowTotals> all;
  for (const auto& length : lengths_) {
    all.push_back(length.totals);
    all.back().length = length.length;
  }
  WindowFinding whole;
  whole.pid = pid_;
  whole.direction = direction_;
  whole.from = start_.value_or(0);
  whole.to = newest_;
  whole.gaps = gap.count;
  whole.p99 = gap.p99;
  whole.but_for_p99 = but_for.p99;
  set_state(whole);
  count(all.emplace_back(), whole);
  for (auto& totals : all) totals.direction = direction_;
  return all;
}

}  // namespace gcause
