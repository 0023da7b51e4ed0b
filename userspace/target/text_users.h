// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "target/code_image.h"
#include "target/code_range.h"
#include "target/function_table.h"

namespace gcause {

// Functions that have no symbol are known by the texts that they refer to.

/// All code that refers to a string.
std::vector<std::uint64_t> users_of(const CodeImage& image, std::string_view text);

/// The distinct stretches of code that hold these addresses.
std::vector<CodeRange> stretches_of(const FunctionTable& table,
                                    std::span<const std::uint64_t> addresses);

/// "0x1234".
std::string hexadecimal(std::uint64_t address);

}  // namespace gcause
