// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace gcause {

/// A stretch of code. Compilers split a function into several, and post-link optimizers do again.
struct CodeRange {
  std::uint64_t begin;  ///< ELF virtual address
  std::uint64_t end;    ///< exclusive

  bool contains(std::uint64_t address) const { return address >= begin && address < end; }
  std::uint64_t size() const { return end - begin; }
  bool operator==(const CodeRange&) const = default;
};

}  // namespace gcause
