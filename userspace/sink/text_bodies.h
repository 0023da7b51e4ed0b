// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "sink/text_report.h"

namespace gcause {

/// Counts what a stream, or a response that is none, says of bodies that were not read.
void add_body(BodyTotals& totals, const StreamFinding& stream);
void add_body(BodyTotals& totals, const StreamUnread& stream);

/// " in 12 reads", or writes, where their number is known.
std::string in_calls(const BodyTotals& totals, StreamDirection direction);

/// Lines on streams that could not be decoded and on responses that stream in another form; empty
/// where there are none.
std::string unread_bodies(const BodyTotals& totals, std::size_t width);

}  // namespace gcause
