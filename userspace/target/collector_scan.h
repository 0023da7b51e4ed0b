// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "target/collector_symbols.h"
#include "target/elf_file.h"

namespace gcause {

/// What the search of a binary without symbols found.
struct CollectorScan {
  std::vector<CollectorFunction> functions;  ///< empty if none is sure
  std::string result;                        ///< how they were found, or why none was
};

/// Finds the collector by what it prints: the string "gc: collecting generation %d...\n" stands
/// once in every CPython from 3.8 to 3.15, GIL and free-threaded, and only the collector and its
/// clones refer to it. The functions that hold these references are taken if a second sign agrees:
/// one of them is called by PyGC_Collect, directly or through one function between, or they print
/// "gc: done, " too.
CollectorScan scan_for_collector(const ElfFile& elf);

}  // namespace gcause
