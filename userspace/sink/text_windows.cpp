// SPDX-License-Identifier: Apache-2.0
#include "sink/text_windows.h"

#include <algorithm>

#include "sink/text_layout.h"

namespace gcause {
namespace {

constexpr std::size_t kShownSpans = 5;

/// An instant as the time since the recording's start, such as "+1m10s" or "+2h05m00s".
std::string since_start(const TextReport& report, Ns at) {
  const Ns seconds = std::max<Ns>(at - report.start, 0) / kSecond;
  const auto two = [](Ns value) { return (value < 10 ? "0" : "") + std::to_string(value); };
  const Ns hours = seconds / 3600, minutes = seconds / 60 % 60, rest = seconds % 60;
  if (hours > 0) return "+" + std::to_string(hours) + "h" + two(minutes) + "m" + two(rest) + "s";
  if (minutes > 0) return "+" + std::to_string(minutes) + "m" + two(rest) + "s";
  return "+" + std::to_string(rest) + "s";
}

std::string length_text(std::optional<Ns> length) {
  if (!length) return "all";
  return std::to_string(*length / (60 * kSecond)) + " min";
}

/// A time in which the windows of one length that ended were all broken.
struct BrokenSpan {
  Ns from;
  Ns to;
  WindowFinding worst;  ///< by p99
};

std::vector<BrokenSpan> spans_of(std::vector<WindowFinding> windows) {
  std::ranges::sort(windows, {}, &WindowFinding::to);
  std::vector<BrokenSpan> spans;
  for (const auto& window : windows) {
    if (spans.empty() || spans.back().to != window.news_from) {
      spans.push_back({window.news_from, window.to, window});
      continue;
    }
    spans.back().to = window.to;
    if (window.p99 > spans.back().worst.p99) spans.back().worst = window;
  }
  return spans;
}

std::string span_text(const TextReport& report, const BrokenSpan& span) {
  return "broken from " + since_start(report, span.from) + " to " + since_start(report, span.to) +
         ": p99 up to " + format_duration(span.worst.p99) + ", but for the collector " +
         format_duration(span.worst.but_for_p99);
}

void add_spans(Table& table, const TextReport& report, const std::vector<BrokenSpan>& spans) {
  for (std::size_t i = 0; i < std::min(kShownSpans, spans.size()); ++i) {
    table.note(span_text(report, spans[i]));
  }
  if (spans.size() > kShownSpans) {
    table.note("and " + counted(spans.size() - kShownSpans, "more time", "more times"));
  }
}

/// Which streams, where they are not the ones that the process reads.
std::string direction_text(const SummaryFinding& summary, StreamDirection direction) {
  if (!summary.by_direction.contains(StreamDirection::write)) return "";
  return direction == StreamDirection::write ? " written" : " read";
}

void add_length(Table& table, const TextReport& report, const WindowTotals& windows,
                const std::string& which) {
  std::vector<Cell> cells = {
      length_text(windows.length) + which,
      format_count(windows.count),
      {format_count(windows.broken), windows.broken > 0 ? Tone::bad : Tone::plain},
      format_count(windows.broken_by_collector),
      format_count(windows.few)};
  if (const auto& worst = windows.worst) {
    cells.insert(cells.end(), {format_duration(worst->p99), format_duration(worst->but_for_p99),
                               since_start(report, worst->to)});
  } else {
    cells.insert(cells.end(), {Cell("-"), Cell("-"), Cell("-")});
  }
  table.row(std::move(cells));
}

}  // namespace

std::string budget_over_time(const TextReport& report, const ProcessReport& process,
                             std::size_t width, bool color) {
  const auto& windows = process.summary->windows;
  const bool any = std::ranges::any_of(
      windows, [](const WindowTotals& totals) { return totals.length && totals.count > 0; });
  if (!any || process.summary->gap.count == 0) return "";
  Table table({{"window", Align::left},
               {"windows"},
               {"broken"},
               {"by gc"},
               {"too few"},
               {"worst p99"},
               {"but-for"},
               {"its end"}});
  for (const WindowTotals& totals : windows) {
    if (totals.count == 0) continue;
    add_length(table, report, totals, direction_text(*process.summary, totals.direction));
    const auto found = totals.length ? process.broken.find({totals.direction, *totals.length})
                                     : process.broken.end();
    if (found != process.broken.end()) add_spans(table, report, spans_of(found->second));
  }
  return "\n" + paint("budget over time", Tone::bold, color) + "\n" + table.render(width, color) +
         wrap("windows end every " + std::to_string(kWindowStep / kSecond) +
                  " s; by gc: kept but for the collector; too few: fewer than "
                  "100 gaps, not judged",
              width, "  ");
}

}  // namespace gcause
