// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "target/code_image.h"
#include "target/code_range.h"
#include "target/function_table.h"

namespace gcause {

/// A direct call or jump to a fixed address.
struct Branch {
  std::uint64_t source;  ///< address of the instruction
  std::uint64_t target;
  bool call;  ///< a call; else a jump, with a condition or without
};

/// The code addresses that form the address of a piece of data, by the instructions compilers use
/// for it. On x86-64 the bytes are searched and not disassembled: that a displacement hits one
/// address by chance does not happen.
std::vector<std::uint64_t> references_to(const CodeImage& image, std::uint64_t data);

/// What a whole program's code says of where control goes.
struct ControlFlow {
  std::vector<Branch> jumps;          ///< from one stretch of code into another, by source
  std::vector<std::uint64_t> called;  ///< the targets of calls, as often as there are calls
};

/// The direct branches with a 32-bit displacement (x86-64, again without disassembly, so that a few
/// are none) or of any form (aarch64) from code to code. Short jumps of x86-64 stay within a
/// stretch and are left out. Nothing, with the reason in `why`, if there are more than any program
/// has.
std::optional<ControlFlow> control_flow_of(const CodeImage& image, const FunctionTable& table,
                                           std::string& why);

/// The same branches of one stretch of code, also those that stay in it.
std::vector<Branch> branches_of(const CodeImage& image, const CodeRange& range);

}  // namespace gcause
