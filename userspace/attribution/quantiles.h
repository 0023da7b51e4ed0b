// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "attribution/finding.h"
#include "util/time.h"

namespace gcause {

/// Collects values for nearest-rank quantiles over all of them: the smallest value that at least
/// the given share of all values does not exceed. 8 bytes a value.
class Quantiles {
 public:
  void add(Ns value) { values_.push_back(value); }
  void add(const Quantiles& others) {
    values_.insert(values_.end(), others.values_.begin(), others.values_.end());
  }
  std::uint64_t count() const { return values_.size(); }

  /// Sorts as far as needed; values may be added afterwards.
  Distribution distribution();
  PauseTotals totals();
  /// 0 without values.
  Ns p99() { return rank(0.99); }

 private:
  Ns rank(double share);

  std::vector<Ns> values_;
};

}  // namespace gcause
