// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "recording/timeline.h"
#include "util/result.h"

namespace gcause::test {

/// Feeds a raw capture through decode, streams and pauses, as the live run that made it did, and
/// hands the timeline to `consumer`. Returns the number of kernel records.
Result<std::uint64_t> replay_raw_capture(const std::string& path, TimelineConsumer& consumer);

}  // namespace gcause::test
