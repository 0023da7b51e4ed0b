// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>

#include "util/result.h"

namespace gcause {

struct DoctorOptions {
  std::optional<std::uint32_t> pid;
  bool json = false;
  std::set<std::string> without = {};  ///< features to be treated as absent
};

/// Prints what this kernel and these rights allow, and, for a process, where its probes would go
/// and what would not be seen. Attaches nothing. Fails as `record` would, after having printed all
/// that is known.
Result<int> doctor(const DoctorOptions& options);

}  // namespace gcause
