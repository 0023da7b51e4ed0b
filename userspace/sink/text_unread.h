// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "sink/text_report.h"

namespace gcause {

/// The connections whose TLS could not be read, of which there were `count`; empty if there were
/// none.
std::string unread_connections(const ProcessReport& process, std::uint64_t count,
                               std::size_t width);

}  // namespace gcause
