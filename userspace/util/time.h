// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "util/result.h"

namespace gcause {

/// Nanoseconds of CLOCK_MONOTONIC for instants, plain nanoseconds for durations. Signed, so that a
/// difference is always representable.
using Ns = std::int64_t;

inline constexpr Ns kMicrosecond = 1'000;
inline constexpr Ns kMillisecond = 1'000'000;
inline constexpr Ns kSecond = 1'000'000'000;

/// Reads a duration as the command line takes it: a number with `us`, `ms`, `s`, `m` or `h`; a
/// bare number is seconds. The value must be positive and below 2^62 ns.
Result<Ns> parse_duration(std::string_view text);

/// A duration for people: three significant digits and a unit, such as "412 ms" or "1.82 s".
std::string format_duration(Ns duration);

}  // namespace gcause
