// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "target/code_image.h"
#include "target/code_range.h"

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

/// Every direct branch with a 32-bit displacement (x86-64, again without disassembly, so that a few
/// are none) or of any form (aarch64) from code to code, in the order of sources. Short jumps of
/// x86-64 stay within a stretch of code and are left out. Nothing, with the reason in `why`, if
/// there are more than any program has.
std::optional<std::vector<Branch>> branches_of(const CodeImage& image, std::string& why);

/// The same from one stretch of code.
std::vector<Branch> branches_of(const CodeImage& image, const CodeRange& range);

}  // namespace gcause
