// SPDX-License-Identifier: Apache-2.0
#include "target/collector_scan.h"

#include <algorithm>
#include <span>
#include <string_view>

#include "target/code_image.h"
#include "target/code_scan.h"
#include "target/fragments.h"
#include "target/function_table.h"
#include "target/text_users.h"

namespace gcause {
namespace {

using namespace std::string_view_literals;

// Modules/gcmodule.c (3.8 to 3.12), Python/gc.c, Python/gc_free_threading.c (3.13 on).
constexpr auto kBanner = "gc: collecting generation %d...\n\0"sv;
constexpr auto kDone = "gc: done, "sv;

// One or two are usual, four behind a post-link optimizer, which leaves the first ones in place.
constexpr std::size_t kMaxStretches = 16;

/// Addresses of the functions that have a symbol, in order, and that of PyGC_Collect; 0 if it has
/// none. Where there is a full table fragments have one, too, which says nothing here.
std::vector<std::uint64_t> named_functions(const ElfFile& elf, std::uint64_t& manual) {
  std::vector<std::uint64_t> addresses;
  manual = 0;
  elf.for_each_symbol([&](const ElfSymbol& symbol) {
    if (!symbol.function || symbol.name.find(".cold") != std::string_view::npos) return true;
    addresses.push_back(symbol.address);
    if (symbol.name == "PyGC_Collect") manual = symbol.address;
    return true;
  });
  std::sort(addresses.begin(), addresses.end());
  return addresses;
}

bool holds(std::span<const CollectorFunction> functions, const CodeRange& function) {
  return std::any_of(functions.begin(), functions.end(), [&](const CollectorFunction& found) {
    return found.address == function.begin;
  });
}

/// Whether PyGC_Collect calls one of the functions, itself or by one function between.
bool called_by(std::uint64_t manual, const Fragments& fragments, const FunctionTable& table,
               std::span<const CollectorFunction> functions) {
  const auto start = table.containing(manual);
  if (!start) return false;
  const auto callees = fragments.callees_of(*start);
  const auto hit = [&](const CodeRange& callee) { return holds(functions, callee); };
  if (std::any_of(callees.begin(), callees.end(), hit)) return true;
  return std::any_of(callees.begin(), callees.end(), [&](const CodeRange& callee) {
    const auto deeper = fragments.callees_of(callee);
    return std::any_of(deeper.begin(), deeper.end(), hit);
  });
}

/// Whether one of the functions refers to a string.
bool refers(const CodeImage& image, std::string_view text,
            std::span<const CollectorFunction> functions) {
  const auto users = users_of(image, text);
  return std::any_of(functions.begin(), functions.end(), [&](const CollectorFunction& function) {
    return std::any_of(users.begin(), users.end(), [&](std::uint64_t user) {
      return std::any_of(function.ranges.begin(), function.ranges.end(),
                         [&](const CodeRange& range) { return range.contains(user); });
    });
  });
}

CollectorScan without_result(std::string why) { return {{}, std::move(why)}; }

}  // namespace

CollectorScan scan_for_collector(const ElfFile& elf) {
  std::string why;
  const auto image = CodeImage::make(elf, why);
  if (!image) return without_result(why);
  const auto users = users_of(*image, kBanner);
  if (users.empty()) return without_result("no code refers to the text that the collector prints");
  const auto table = FunctionTable::read(elf, *image, why);
  if (!table) return without_result(why);
  const auto stretches = stretches_of(*table, users);
  if (stretches.empty() || stretches.size() > kMaxStretches) {
    return without_result("what refers to the text that the collector prints is no function");
  }
  const auto flow = control_flow_of(*image, *table, why);
  if (!flow) return without_result(why);
  std::uint64_t manual = 0;
  const Fragments fragments(*image, *table, *flow, named_functions(elf, manual));

  CollectorScan scan;
  for (const auto& stretch : stretches) {
    const auto function = fragments.function_of(stretch.begin);
    if (!function || holds(scan.functions, *function) || !image->is_code(function->begin)) continue;
    scan.functions.push_back({"collector at " + hexadecimal(function->begin), function->begin,
                              function->size(), fragments.ranges_of(*function)});
  }
  if (scan.functions.empty()) {
    return without_result(
        "the function was not found that the code belongs to which refers to the "
        "text that the collector prints");
  }
  const bool called = manual != 0 && called_by(manual, fragments, *table, scan.functions);
  if (!called && !refers(*image, kDone, scan.functions)) {
    return without_result("the function at " + hexadecimal(scan.functions.front().address) +
                          " prints what the collector prints, but nothing else says that it is it");
  }
  for (const auto& function : scan.functions) {
    scan.result += (scan.result.empty() ? "" : ", ") + function.name;
  }
  scan.result += called ? ", called by PyGC_Collect" : "";
  return scan;
}

}  // namespace gcause
