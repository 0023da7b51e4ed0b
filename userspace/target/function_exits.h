// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "target/code_range.h"
#include "target/elf_file.h"
#include "target/target.h"
#include "util/result.h"

namespace gcause {

/// The ranges of the function that holds `address`: from the unwind table, else from the symbol
/// table, with the parts that compilers move away as `.cold` where the symbol table tells them.
/// Empty where neither knows it.
std::vector<CodeRange> ranges_of_function(const ElfFile& elf, std::uint64_t address);

/// The addresses of all instructions at which control returns from a function of these ranges. At
/// each the result register holds the result and the stack pointer the return address. Fails where
/// the code may also leave in a way that no probe can stand for: by a jump out of the ranges, which
/// may be the call of a function that returns in its place, or where bytes are no instructions.
/// x86-64 only; `name` is for the error.
Result<std::vector<std::uint64_t>> function_exits(const ElfFile& elf,
                                                  std::span<const CodeRange> ranges,
                                                  const std::string& name);

/// For a process that a return probe might kill: fills the `exits` of each of `sites` that has an
/// end, and leaves out the sites that could only be return probes. Where a function's exits cannot
/// be known, a site of the TLS library is left out with a note in `target`; the collector's is not,
/// and the error says why.
Result<> take_ends_at_exits(Target& target, std::vector<ProbeSite>& sites);

}  // namespace gcause
