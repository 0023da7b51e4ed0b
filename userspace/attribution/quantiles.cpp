// SPDX-License-Identifier: Apache-2.0
#include "attribution/quantiles.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace gcause {

Ns Quantiles::rank(double share) {
  if (values_.empty()) return 0;
  const auto wanted = static_cast<std::size_t>(std::ceil(share * static_cast<double>(count())));
  const auto index = std::clamp<std::size_t>(wanted, 1, values_.size()) - 1;
  const auto at = values_.begin() + static_cast<std::ptrdiff_t>(index);
  std::nth_element(values_.begin(), at, values_.end());
  return *at;
}

Distribution Quantiles::distribution() {
  return {count(), rank(0.50), rank(0.90), rank(0.99), rank(1.0)};
}

PauseTotals Quantiles::totals() {
  const Ns total = std::accumulate(values_.begin(), values_.end(), Ns{0});
  return {count(), total, rank(1.0), rank(0.50), rank(0.99)};
}

}  // namespace gcause
