// SPDX-License-Identifier: Apache-2.0
#pragma once

// The records and settings of the kernel side.

#include "util/kernel_types.h"

#include "../../bpf/events.h"
// events.h first: config.h uses its assertion.
#include "../../bpf/config.h"
