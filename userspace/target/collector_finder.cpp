// SPDX-License-Identifier: Apache-2.0
#include "target/collector_finder.h"

#include <algorithm>

#include "target/code_image.h"
#include "target/code_scan.h"
#include "target/collector_scan.h"
#include "target/debug_symbols.h"
#include "target/function_table.h"

namespace gcause {
namespace {

// A function that only hands its argument on to another one.
constexpr std::uint64_t kLongestShell = 64;

std::string names_of(const std::vector<CollectorFunction>& functions) {
  std::string names;
  for (const auto& function : functions) names += (names.empty() ? "" : ", ") + function.name;
  return names;
}

/// What one symbol table says, without what cannot be code of this file.
CollectorSymbols symbols_of(const ElfFile& table, const CollectorSearch& search,
                            const CodeImage& image) {
  auto symbols = collector_symbols(table, search.build);
  const auto is_no_code = [&](const CollectorFunction& f) { return !image.is_code(f.address); };
  for (auto* list : {&symbols.collectors, &symbols.world_stops, &symbols.world_starts}) {
    list->erase(std::remove_if(list->begin(), list->end(), is_no_code), list->end());
    for (auto& function : *list) {
      std::erase_if(function.ranges, [&](const CodeRange& r) { return !image.is_code(r.begin); });
    }
  }
  return symbols;
}

class Finder {
 public:
  Finder(const CollectorSearch& search, const CodeImage& image) : search_(search), image_(image) {}

  FoundCollector find() {
    const bool usdt_first = search_.prefer_usdt && has_usdt();
    const CollectorMethod order[] = {CollectorMethod::symbol, CollectorMethod::debuginfo,
                                     CollectorMethod::usdt, CollectorMethod::scan};
    for (const auto method : order) {
      if (found_.method && !search_.all_ways) break;
      try_way(method, usdt_first);
    }
    see_through_shells(found_.world_stops);
    see_through_shells(found_.world_starts);
    return std::move(found_);
  }

 private:
  bool has_usdt() const {
    return search_.elf.has_usdt("python", "gc__start") &&
           search_.elf.has_usdt("python", "gc__done");
  }

  void try_way(CollectorMethod method, bool usdt_first) {
    CollectorWay way{method, false, ""};
    std::vector<CollectorFunction> functions;
    switch (method) {
      case CollectorMethod::symbol:
        functions = by_symbol(way);
        break;
      case CollectorMethod::debuginfo:
        functions = by_debug_symbols(way);
        break;
      case CollectorMethod::usdt:
        way.found = has_usdt();
        way.result = way.found ? "gc__start, gc__done"
                               : "no USDT probes gc__start and gc__done of the provider python";
        break;
      case CollectorMethod::scan: {
        auto scan = scan_for_collector(search_.elf);
        functions = std::move(scan.functions);
        way.found = !functions.empty();
        way.result = std::move(scan.result);
        break;
      }
    }
    const bool taken =
        way.found && !found_.method && (!usdt_first || method == CollectorMethod::usdt);
    if (taken) {
      found_.method = method;
      found_.functions = std::move(functions);
    }
    found_.ways.push_back(std::move(way));
  }

  std::vector<CollectorFunction> by_symbol(CollectorWay& way) {
    auto symbols = symbols_of(search_.elf, search_, image_);
    take_world(symbols);
    way.found = !symbols.collectors.empty();
    way.result = way.found ? names_of(symbols.collectors)
                           : "none of the " + std::to_string(symbols.functions) +
                                 " functions in its symbol tables is the collector";
    return std::move(symbols.collectors);
  }

  std::vector<CollectorFunction> by_debug_symbols(CollectorWay& way) {
    for (const bool mini : {true, false}) {
      auto file = mini ? mini_debug_info(search_.elf)
                       : separate_debug_file(search_.elf, search_.seen_path, search_.root);
      const std::string separator = way.result.empty() ? "" : "; ";
      if (!file) {
        way.result += separator + file.error().what;
        continue;
      }
      auto symbols = symbols_of(file->elf, search_, image_);
      take_world(symbols);
      if (symbols.collectors.empty()) {
        way.result += separator + "no collector in " + file->name;
        continue;
      }
      way.found = true;
      way.result = names_of(symbols.collectors) + " in " + file->name;
      return std::move(symbols.collectors);
    }
    return {};
  }

  /// The more a table says, the later it comes: exported shells first, all functions after.
  void take_world(CollectorSymbols& symbols) {
    if (!symbols.world_stops.empty() && !symbols.world_starts.empty()) {
      found_.world_stops = std::move(symbols.world_stops);
      found_.world_starts = std::move(symbols.world_starts);
    }
  }

  /// _PyEval_StopTheWorld and _PyEval_StartTheWorld hand on to the static functions that the
  /// collector may call directly. Without symbols these are what the shells call.
  void see_through_shells(std::vector<CollectorFunction>& functions) const {
    if (functions.empty() || !functions.front().name.starts_with("_PyEval_")) return;
    std::string why;
    const auto table = FunctionTable::read(search_.elf, image_, why);
    if (!table) return;
    for (auto& function : functions) {
      const auto shell = table->containing(function.address);
      if (!shell || shell->begin != function.address || shell->size() > kLongestShell) continue;
      const auto branches = branches_of(image_, *shell);
      if (branches.size() != 1 || shell->contains(branches.front().target)) continue;
      const auto inner = table->containing(branches.front().target);
      if (!inner || inner->begin != branches.front().target) continue;
      function = {function.name + " (what it calls)", inner->begin, inner->size(), {*inner}};
    }
    std::sort(functions.begin(), functions.end(),
              [](const auto& a, const auto& b) { return a.address < b.address; });
    const auto same = [](const auto& a, const auto& b) { return a.address == b.address; };
    functions.erase(std::unique(functions.begin(), functions.end(), same), functions.end());
  }

  const CollectorSearch& search_;
  const CodeImage& image_;
  FoundCollector found_;
};

}  // namespace

FoundCollector find_collector_functions(const CollectorSearch& search) {
  std::string why;
  const auto image = CodeImage::make(search.elf, why);
  if (!image) {
    FoundCollector none;
    none.ways.push_back({CollectorMethod::symbol, false, why});
    return none;
  }
  return Finder(search, *image).find();
}

}  // namespace gcause
