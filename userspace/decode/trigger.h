// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "decode/event.h"

namespace gcause {

/// Reads a RECORD_TRIGGER, whole and at least a header long. Nothing where it is malformed, or
/// where the file, the function or the line is not sure: all of it comes from the target's memory.
std::optional<TriggerSeen> decode_trigger(std::span<const std::byte> record);

}  // namespace gcause
