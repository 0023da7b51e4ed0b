// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "target/elf_file.h"
#include "target/layout.h"
#include "target/target.h"
#include "util/result.h"

namespace gcause {

/// Whether this object holds a Python runtime, and of which make.
enum class RuntimeKind : std::uint8_t { none, cpython, other };
RuntimeKind runtime_of(const ElfFile& elf, std::string_view path);

/// The version: from Py_Version (3.11 on), else from the file's name; `free_threaded` from
/// _Py_DebugOffsets (3.13 on).
PythonBuild python_build(const ElfFile& elf, std::string_view path);

}  // namespace gcause
