// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "decode/kernel_abi.h"

namespace gcause {

/// The source line of the instruction `instruction` bytes into a code object whose first line is
/// `first_line`, as CPython's own PyCode_Addr2Line gives it. `table` is co_lnotab, co_linetable or
/// its successor, as `kind` says, and may hold anything. Nothing where the table does not reach so
/// far or gives the instruction no line.
std::optional<std::int64_t> line_of(line_table kind, std::int64_t first_line,
                                    std::int64_t instruction, std::span<const std::byte> table);

}  // namespace gcause
