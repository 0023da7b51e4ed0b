// SPDX-License-Identifier: Apache-2.0
#pragma once

// The records and settings of the kernel side, which expect the types in front of them.

// clang-format off
#include "util/kernel_types.h"
#include "../../bpf/events.h"
#include "../../bpf/config.h"
// clang-format on
