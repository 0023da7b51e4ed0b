// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "target/code_image.h"
#include "target/code_range.h"
#include "target/code_scan.h"
#include "target/function_table.h"

namespace gcause {

/// Tells functions from the fragments that compilers (-freorder-blocks-and-partition: NAME.cold)
/// and post-link optimizers split off them, without symbols.
///
/// A stretch of code is a fragment if its unwinding information begins with a frame that is set up
/// already, or if nothing calls its first instruction and most of the branches into and out of it
/// join one other function. The first test alone misses the fragments of functions that keep no
/// frame, the second takes a function for a fragment that is reached by tail calls only.
class Fragments {
 public:
  /// `entries` are addresses known to be entered from elsewhere, as exported ones, in order. What
  /// is handed over by reference must outlive the object.
  Fragments(const CodeImage& image, const FunctionTable& table, const ControlFlow& flow,
            std::vector<std::uint64_t> entries)
      : image_(image), table_(table), flow_(flow), entries_(std::move(entries)) {}

  /// The first stretch of the function that an address belongs to. Nothing where that is not sure:
  /// a fragment whose function was not found.
  std::optional<CodeRange> function_of(std::uint64_t address) const;

  /// A function's stretches: its first, then its fragments.
  std::vector<CodeRange> ranges_of(const CodeRange& function) const;

  /// The functions that a function's first stretch calls or jumps to, at most 256.
  std::vector<CodeRange> callees_of(const CodeRange& function) const;

 private:
  struct Owner {
    CodeRange function;
    unsigned branches;  ///< that join it and the fragment
    unsigned all;       ///< that lead into or out of the fragment
  };

  bool is_called(const CodeRange& stretch) const;
  std::optional<Owner> likely_owner(const CodeRange& stretch) const;
  std::optional<CodeRange> function_of(const CodeRange& stretch) const;

  const CodeImage& image_;
  const FunctionTable& table_;
  const ControlFlow& flow_;
  std::vector<std::uint64_t> entries_;
};

}  // namespace gcause
