// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sink/text_report.h"

namespace gcause {

/// The collector's thread was off the CPU for much of the pause: its wall time is more than 1.5
/// times its CPU time, and at least 5 ms longer. False if the CPU time is not known.
bool is_descheduled(const PauseRecord& pause);

/// One paragraph on which pauses did the harm above the budget, and the cure that the figures
/// support; empty if nothing was charged to a pause that is known.
std::string reading_hint(const ProcessReport& process);

/// Whether most of the process's part of a gap with that verdict was spent without a CPU.
bool lacked_cpu(const GapFinding& gap);

/// Whether most of it was spent on waiting for the interpreter lock.
bool lacked_lock(const GapFinding& gap);

/// What such gaps tell, a paragraph each; empty if there are none.
std::string cpu_hint(const ProcessReport& process, std::uint64_t process_verdicts);
std::string lock_hint(const ProcessReport& process, std::uint64_t process_verdicts);

}  // namespace gcause
