// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "target/collector_finder.h"

namespace gcause {

/// Remembers by build-id what was found, so that the next process of the same Python costs no
/// search. A target can put any build-id on any file, and a probe at a wrong address would break
/// it, so the file must be of the same size and have the same code at every function, too.
class CollectorCache {
 public:
  /// What is remembered of this file, else what a search finds.
  FoundCollector find(const CollectorSearch& search);

  /// How many searches were saved.
  std::uint64_t hits() const { return hits_; }

 private:
  struct Code {
    std::uint64_t address;
    std::vector<std::uint8_t> bytes;
  };
  struct Entry {
    std::size_t file_size;
    bool prefer_usdt;
    bool all_ways;
    std::vector<Code> code;
    FoundCollector found;
  };

  static bool holds(const Entry& entry, const CollectorSearch& search);
  static std::optional<std::vector<Code>> code_of(const CollectorSearch& search,
                                                  const FoundCollector& found);

  std::map<std::vector<std::uint8_t>, Entry> entries_;
  std::uint64_t hits_ = 0;
};

}  // namespace gcause
