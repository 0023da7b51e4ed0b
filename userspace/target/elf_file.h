// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <libelf.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "util/fd.h"
#include "util/result.h"

namespace gcause {

struct ElfSymbol {
  std::string_view name;  ///< valid while the file is open, version suffix not included
  std::uint64_t address;  ///< ELF virtual address
  std::uint64_t size;     ///< bytes; 0 if the table does not say
  bool function;
};

struct ElfSection {
  std::uint64_t address;  ///< ELF virtual address
  std::uint64_t size;     ///< bytes
};

/// What a loaded segment holds in the file, cut to what the file really has.
struct ElfSegment {
  std::uint64_t address;  ///< ELF virtual address
  std::uint64_t offset;   ///< into the file, bytes
  std::uint64_t size;     ///< in the file, bytes
  bool executable;
};

/// An ELF file, read by elfutils. The file belongs to the target: nothing in it is trusted.
class ElfFile {
 public:
  /// `path` is opened as it is; errors name it.
  static Result<ElfFile> open(const std::string& path);

  /// The same of a file that is open already; `name` is for errors.
  static Result<ElfFile> open(Fd fd, const std::string& name);

  /// The same of bytes, which the object takes over; `name` is for errors.
  static Result<ElfFile> from_memory(std::vector<std::uint8_t> bytes, const std::string& name);

  /// Calls `visit` for each defined symbol of .symtab and .dynsym until it returns false.
  void for_each_symbol(const std::function<bool(const ElfSymbol&)>& visit) const;

  /// The first defined symbol of this name.
  std::optional<ElfSymbol> find(std::string_view name) const;

  /// Whether the file has a SystemTap probe of this provider and name.
  bool has_usdt(std::string_view provider, std::string_view name) const;

  /// File offset of a virtual address that a loaded segment holds.
  std::optional<std::uint64_t> file_offset(std::uint64_t address) const;

  /// Up to `count` bytes of the file's image at a virtual address; fewer at the segment's end.
  std::vector<std::uint8_t> bytes_at(std::uint64_t address, std::size_t count) const;

  /// The virtual address at which the executable segment would have the byte at `offset`, for a
  /// mapping of `length` bytes from there on that shows some of that segment.
  std::optional<std::uint64_t> executable_address(std::uint64_t offset, std::uint64_t length) const;

  /// The first loaded section of this name, whose contents bytes_at() gives.
  std::optional<ElfSection> section(std::string_view name) const;

  /// DT_SONAME; nothing in an executable.
  std::optional<std::string> soname() const;

  /// EM_X86_64, EM_AARCH64, ...
  unsigned machine() const;

  /// The loaded segments, at most 64: linkers make a dozen.
  std::vector<ElfSegment> segments() const;

  /// The whole file as mapped, valid while it is open; empty if it cannot be mapped.
  std::span<const std::uint8_t> image() const;

  /// The linker's build-id; empty if the file has none.
  std::vector<std::uint8_t> build_id() const;

  /// For what elfutils offers beyond this class; owned by it.
  Elf* handle() const { return elf_.get(); }

  /// Negative if the file is in memory.
  int fd() const { return fd_.get(); }

 private:
  struct Closer {
    void operator()(Elf* elf) const { ::elf_end(elf); }
  };

  ElfFile(Fd fd, std::vector<std::uint8_t> memory, std::unique_ptr<Elf, Closer> elf)
      : fd_(std::move(fd)), memory_(std::move(memory)), elf_(std::move(elf)) {}

  Fd fd_;
  std::vector<std::uint8_t> memory_;  ///< the file's bytes, if there is no descriptor
  std::unique_ptr<Elf, Closer> elf_;
};

}  // namespace gcause
