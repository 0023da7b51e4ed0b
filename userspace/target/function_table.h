// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "target/code_image.h"
#include "target/code_range.h"
#include "target/elf_file.h"

namespace gcause {

/// The stretches of code that have unwinding information of their own: every function and every
/// fragment that was split off one. From .eh_frame_hdr (LSB core specification, "Exception
/// frames"), which no strip removes. Belongs to the image.
class FunctionTable {
 public:
  /// Nothing, with the reason in `why`, where the file has no such table or one that is not sound.
  static std::optional<FunctionTable> read(const ElfFile& elf, const CodeImage& image,
                                           std::string& why);

  /// The stretch that holds an address.
  std::optional<CodeRange> containing(std::uint64_t address) const;

  /// From the begin of the stretch at or before an address to the begin of the next one.
  CodeRange between_begins(std::uint64_t address) const;

  /// Whether the unwinding information of the stretch that begins there says that a frame is set up
  /// already at its first instruction, as in a fragment that is jumped into, never called.
  bool begins_in_mid_function(std::uint64_t begin) const;

  std::size_t size() const { return entries_.size(); }

 private:
  struct Entry {
    std::uint64_t begin;
    std::uint64_t description;  ///< address of the FDE
  };
  struct Description {
    CodeRange range;
    std::span<const std::uint8_t> instructions;
  };

  explicit FunctionTable(const CodeImage& image) : image_(&image) {}

  const Entry* entry_at_or_before(std::uint64_t address) const;
  std::optional<Description> describe(const Entry& entry) const;

  const CodeImage* image_;
  std::vector<Entry> entries_;  ///< by address
};

}  // namespace gcause
