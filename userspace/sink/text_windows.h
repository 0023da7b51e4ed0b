// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "sink/text_report.h"

namespace gcause {

/// The section on when the budget was broken; empty if less than the shortest window was recorded.
std::string budget_over_time(const TextReport& report, const ProcessReport& process,
                             std::size_t width, bool color);

}  // namespace gcause
