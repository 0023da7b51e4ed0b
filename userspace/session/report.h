// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "session/record.h"

namespace gcause {

struct ReportOptions {
  std::string recording;
  std::optional<Ns> budget;  ///< in place of the one of the recording
  std::vector<OutputSpec> outputs = {{}};
  bool chunks = false;
  bool check = false;
};

/// Replays a recording to the output that the live run would have written. Returns the exit code;
/// a recording that is cut off is reported as far as it goes, and then fails.
Result<int> report(const ReportOptions& options);

}  // namespace gcause
