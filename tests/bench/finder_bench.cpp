// SPDX-License-Identifier: Apache-2.0
//
// Finds the collector in files and says how long that took: the first time, and the second time out
// of the cache. Opening the file is part of both.
//
//     finder_bench [--scan-only | --all-ways] [--root DIR] [--json] FILE...
//
// --scan-only searches the code alone, as if there were no symbols and no probes; --all-ways goes
// on behind the way that is taken. --root is the root directory of a target, for its debug files.
// --json prints one line of JSON for each file. Ends with 1 if a file has no collector that can be
// found.

#include <chrono>
#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "sink/names.h"
#include "target/collector_cache.h"
#include "target/collector_finder.h"
#include "target/collector_scan.h"
#include "target/elf_file.h"
#include "target/python.h"

namespace {

using Json = nlohmann::ordered_json;
using Clock = std::chrono::steady_clock;

struct Options {
  bool scan_only = false;
  bool all_ways = false;
  bool json = false;
  std::string root;
  std::vector<std::string> files;
};

struct Outcome {
  gcause::FoundCollector found;
  double milliseconds;
};

gcause::Result<Outcome> search(const std::string& path, const Options& options,
                               gcause::CollectorCache& cache) {
  const auto begin = Clock::now();
  auto elf = gcause::ElfFile::open(path);
  if (!elf) return elf.error();
  Outcome outcome{};
  if (options.scan_only) {
    auto scan = gcause::scan_for_collector(*elf);
    if (!scan.functions.empty()) outcome.found.method = gcause::CollectorMethod::scan;
    outcome.found.functions = std::move(scan.functions);
    outcome.found.ways.push_back(
        {gcause::CollectorMethod::scan, outcome.found.method.has_value(), std::move(scan.result)});
  } else {
    outcome.found = cache.find(
        {*elf, gcause::python_build(*elf, path), path, options.root, false, options.all_ways});
  }
  outcome.milliseconds = std::chrono::duration<double, std::milli>(Clock::now() - begin).count();
  return outcome;
}

Json json_of(const std::vector<gcause::CollectorFunction>& functions) {
  auto list = Json::array();
  for (const auto& function : functions) {
    auto ranges = Json::array();
    for (const auto& range : function.ranges) ranges.push_back({range.begin, range.end});
    list.push_back(
        {{"name", function.name}, {"address", function.address}, {"ranges", std::move(ranges)}});
  }
  return list;
}

Json json_of(const std::string& path, const Outcome& first, const Outcome& second) {
  Json json = {{"file", path},
               {"method", first.found.method ? Json(gcause::name_of(*first.found.method)) : Json()},
               {"functions", json_of(first.found.functions)},
               {"world_stops", json_of(first.found.world_stops)},
               {"world_starts", json_of(first.found.world_starts)},
               {"ways", Json::array()},
               {"first_ms", first.milliseconds},
               {"second_ms", second.milliseconds}};
  for (const auto& way : first.found.ways) {
    json["ways"].push_back(
        {{"method", gcause::name_of(way.method)}, {"found", way.found}, {"result", way.result}});
  }
  return json;
}

void print_text(const std::string& path, const Outcome& first, const Outcome& second) {
  std::printf(
      "%s\n  %s, first %.2f ms, second %.0f us\n", path.c_str(),
      first.found.method ? std::string(gcause::name_of(*first.found.method)).c_str() : "not found",
      first.milliseconds, 1000 * second.milliseconds);
  for (const auto& function : first.found.functions) {
    std::printf("  0x%llx %s, %zu ranges\n", static_cast<unsigned long long>(function.address),
                function.name.c_str(), function.ranges.size());
  }
  for (const auto& way : first.found.ways) {
    std::printf("  %s: %s\n", std::string(gcause::name_of(way.method)).c_str(), way.result.c_str());
  }
}

Options parse(int argc, char** argv) {
  Options options;
  for (int i = 1; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument == "--scan-only") {
      options.scan_only = true;
    } else if (argument == "--all-ways") {
      options.all_ways = true;
    } else if (argument == "--json") {
      options.json = true;
    } else if (argument == "--root" && i + 1 < argc) {
      options.root = argv[++i];
    } else {
      options.files.emplace_back(argument);
    }
  }
  return options;
}

}  // namespace

int main(int argc, char** argv) {
  const auto options = parse(argc, argv);
  bool all_found = !options.files.empty();
  gcause::CollectorCache cache;
  for (const auto& file : options.files) {
    const auto first = search(file, options, cache);
    if (!first) {
      std::fprintf(stderr, "finder_bench: %s\n", first.error().what.c_str());
      all_found = false;
      continue;
    }
    const auto second = search(file, options, cache);
    if (!second) {
      std::fprintf(stderr, "finder_bench: %s\n", second.error().what.c_str());
      all_found = false;
      continue;
    }
    if (options.json) {
      std::printf("%s\n", json_of(file, *first, *second).dump().c_str());
    } else {
      print_text(file, *first, *second);
    }
    all_found = all_found && first->found.method;
  }
  return all_found ? 0 : 1;
}
