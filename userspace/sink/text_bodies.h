// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

#include "sink/text_report.h"

namespace gcause {

/// Counts what a stream, or a response that is none, says of bodies that were not read.
void add_body(BodyTotals& totals, const StreamFinding& stream);
void add_body(BodyTotals& totals, const StreamUnread& stream);

/// " in 12 reads", where the number of reads is known.
std::string in_reads(const BodyTotals& totals);

/// Lines on streams that could not be decoded and on responses that stream in another form; empty
/// where there are none.
std::string unread_bodies(const BodyTotals& totals, std::size_t width);

}  // namespace gcause
