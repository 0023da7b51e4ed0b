// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "target/collector_symbols.h"
#include "target/elf_file.h"
#include "target/layout.h"
#include "target/target.h"

namespace gcause {

/// What is searched, and how far.
struct CollectorSearch {
  const ElfFile& elf;
  PythonBuild build;
  std::string seen_path;  ///< of the file, as the target sees it
  std::string root;  ///< the target's root directory, for debug files; empty for this process's
  /// A bracket around the function is not exact for this build: USDT probes come first.
  bool prefer_usdt = false;
  /// For the doctor: try every way, also those behind the one that is taken.
  bool all_ways = false;
};

/// Where a collection can be seen to begin and to end.
struct FoundCollector {
  std::optional<CollectorMethod> method;        ///< the way to take; nothing if there is none
  std::vector<CollectorFunction> functions;     ///< every clone; empty where USDT is the way
  std::vector<CollectorFunction> world_stops;   ///< of free-threaded builds, where known
  std::vector<CollectorFunction> world_starts;  ///< the same
  std::vector<CollectorWay> ways;               ///< every way that was tried, in order
};

/// Tries the ways to the collector in the order of how much each says: the symbol table, symbols
/// kept elsewhere (MiniDebugInfo, a separate debug file), USDT probes, the search of the code.
FoundCollector find_collector_functions(const CollectorSearch& search);

}  // namespace gcause
