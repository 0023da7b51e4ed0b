// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "target/elf_file.h"

namespace gcause {

enum class Machine : std::uint8_t { x86_64, aarch64 };

/// The bytes that an ELF file loads, by address. Belongs to the file and must not outlive it.
class CodeImage {
 public:
  struct Segment {
    std::uint64_t address;
    std::span<const std::uint8_t> bytes;
    bool executable;
  };

  /// Nothing, with the reason in `why`, where the code is of another machine or so laid out that to
  /// search it would cost more than the file is large.
  static std::optional<CodeImage> make(const ElfFile& elf, std::string& why);

  /// From the address to the end of what its segment holds; empty outside of all.
  std::span<const std::uint8_t> from(std::uint64_t address) const;

  /// Whether the address lies in an executable segment.
  bool is_code(std::uint64_t address) const;

  /// The addresses at which these bytes stand, at most `limit`: in segments that are not
  /// executable, if there are none, in those that are.
  std::vector<std::uint64_t> find(std::span<const std::uint8_t> bytes, std::size_t limit) const;

  const std::vector<Segment>& segments() const { return segments_; }
  Machine machine() const { return machine_; }

  /// Whether the code may hold addresses as they are.
  bool position_dependent() const { return position_dependent_; }

 private:
  CodeImage() = default;

  std::vector<Segment> segments_;
  Machine machine_ = Machine::x86_64;
  bool position_dependent_ = false;
};

}  // namespace gcause
