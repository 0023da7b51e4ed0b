// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "util/result.h"

namespace gcause {

/// Whether a process whose seccomp filter knows nothing of return probes survives one. From Linux
/// 6.11 on (commit ff474a78cef5) the return goes through a system call in the process, which a
/// filter may answer by killing it, until commit cf6cb56ef244 took this call out of seccomp's
/// sight. Found by doing it, in a child: a return probe on a function of our own, under a filter
/// that allows everything but these calls. Fails where that cannot be tried.
Result<bool> return_probes_survive_seccomp();

}  // namespace gcause
