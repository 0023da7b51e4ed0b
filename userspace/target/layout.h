// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "target/elf_file.h"

// The layout expects the types in front of it.
// clang-format off
#include "util/kernel_types.h"
#include "../../bpf/python_layout.h"
// clang-format on

namespace gcause {

/// What the version says about a CPython build.
struct PythonBuild {
  std::optional<std::uint32_t> hex;  ///< PY_VERSION_HEX; only major and minor may be set
  std::optional<std::string> version;
  std::optional<bool> free_threaded;
};

/// The ELF virtual address of _PyRuntime: its symbol, else its section (3.10 on).
std::optional<std::uint64_t> runtime_symbol(const ElfFile& elf);

/// The layout of this CPython: from the table of versions before 3.13, from _Py_DebugOffsets in the
/// file and guarded rows of the collector's state from then on. Nothing where no row holds; `why`
/// then says so in one line.
std::optional<python_layout> layout_of(const ElfFile& elf, const PythonBuild& build,
                                       std::string& why);

/// The same from the table of versions before 3.13 alone. `hex` is PY_VERSION_HEX, of which only
/// major and minor may be set; `machine` is the ELF file's.
std::optional<python_layout> layout_of_version(std::uint32_t hex, unsigned machine,
                                               std::string& why);

/// Bytes of _PyRuntime's start that debug_offsets_head and layout_of_debug_offsets may need.
constexpr std::size_t kDebugOffsetsBytes = 1024;

/// The head of _Py_DebugOffsets, which all versions from 3.13 on share.
struct DebugOffsetsHead {
  std::uint32_t hex;  ///< PY_VERSION_HEX
  bool free_threaded;
};

/// Reads it from the first bytes of _PyRuntime; nothing where they do not begin with one.
std::optional<DebugOffsetsHead> debug_offsets_head(std::span<const std::uint8_t> runtime);

/// The layout that the _Py_DebugOffsets at the start of _PyRuntime tells (3.13 on). Nothing where
/// its version has no row, where an offset lies outside of its struct, or where the collector's
/// state is another than the row's.
std::optional<python_layout> layout_of_debug_offsets(std::span<const std::uint8_t> runtime,
                                                     std::string& why);

}  // namespace gcause
