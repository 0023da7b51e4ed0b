// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <time.h>

#include "util/time.h"

namespace gcause {

/// A clock of clock_gettime(2), in ns. Not for the stages between decode and the sinks, which know
/// only the times of events.
inline Ns read_clock(clockid_t clock) {
  timespec now = {};
  ::clock_gettime(clock, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

inline Ns now_monotonic() { return read_clock(CLOCK_MONOTONIC); }

}  // namespace gcause
