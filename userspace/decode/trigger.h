// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <span>

#include "decode/event.h"

namespace gcause {

/// Reads a RECORD_TRIGGER, whole and at least a header long; nothing where it is malformed. What it
/// says comes from the target's memory, so the file, the function or the line may not be sure.
std::optional<TriggerSeen> decode_trigger(std::span<const std::byte> record);

}  // namespace gcause
