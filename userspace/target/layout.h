// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
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

/// The layout of this CPython: from the table of versions before 3.13, from _Py_DebugOffsets in the
/// file and guarded rows of the collector's state from then on. Nothing where no row holds; `why`
/// then says so in one line.
std::optional<python_layout> layout_of(const ElfFile& elf, const PythonBuild& build,
                                       std::string& why);

}  // namespace gcause
