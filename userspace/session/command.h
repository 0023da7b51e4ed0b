// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "util/result.h"

namespace gcause {

/// Starts a command as a child with standard input, output and error of this process, and with the
/// signals that gcause blocks unblocked. Fails where it cannot be executed. Returns its pid.
Result<std::uint32_t> start_command(const std::vector<std::string>& command);

}  // namespace gcause
