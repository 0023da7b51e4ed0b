// SPDX-License-Identifier: Apache-2.0
#include "sink/text_triggers.h"

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "sink/text_layout.h"

namespace gcause {
namespace {

constexpr std::size_t kShown = 5;
constexpr std::size_t kLongestName = 60;

/// The end of a path tells more than its begin.
std::string file_tail(std::string_view file) {
  if (file.size() <= kLongestName) return printable(file, kLongestName);
  return "..." + printable(file.substr(file.size() - kLongestName + 3), kLongestName);
}

}  // namespace

void TriggerTable::add(const PauseEnded& pause) {
  if (!pause.trigger) return;
  const auto& trigger = *pause.trigger;
  Cost& cost = by_place_[file_tail(trigger.file) + ":" + std::to_string(trigger.line) + " in " +
                         printable(trigger.function, kLongestName)];
  const Ns wall = pause.end - pause.begin;
  ++cost.count;
  cost.total += wall;
  cost.longest = std::max(cost.longest, wall);
}

std::string TriggerTable::render(std::size_t width, bool color) const {
  if (by_place_.empty()) return "";
  std::vector<std::pair<std::string, Cost>> places(by_place_.begin(), by_place_.end());
  std::ranges::stable_sort(places, std::greater(),
                           [](const auto& place) { return place.second.total; });
  places.resize(std::min(places.size(), kShown));
  Table table({{"count"}, {"total"}, {"max"}, {"line", Align::left, true}});
  for (const auto& [place, cost] : places) {
    table.row({format_count(cost.count), format_duration(cost.total), format_duration(cost.longest),
               place});
  }
  return "  long pauses were started by\n" + table.render(width, color);
}

}  // namespace gcause
