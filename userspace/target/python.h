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

/// The version: from Py_Version (3.11 on), from _Py_DebugOffsets (3.13 on), else from the SONAME or
/// the file's name, else from the file's constants; `free_threaded` from _Py_DebugOffsets.
PythonBuild python_build(const ElfFile& elf, std::string_view path);

/// Major and minor of the CPython whose constants these are, as PY_VERSION_HEX: "3.9.2" stands
/// alone among them, and "python3.9" in them. Nothing where several versions do.
std::optional<std::uint32_t> version_in_constants(std::string_view constants);

}  // namespace gcause
