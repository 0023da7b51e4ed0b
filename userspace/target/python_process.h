// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "target/elf_file.h"
#include "target/layout.h"
#include "target/process_memory.h"
#include "target/procfs.h"

namespace gcause {

/// What to add to an ELF virtual address of `elf` to have its place in a process that has it mapped
/// there. Nothing where the mapping shows no executable segment of the file.
std::optional<std::uint64_t> load_bias(const ElfFile& elf, const Mapping& mapping);

/// Where the process has what gcause reads of CPython; 0 where that is not known.
struct PythonAddresses {
  std::uint64_t runtime = 0;    ///< _PyRuntime
  std::uint64_t code_type = 0;  ///< PyCode_Type
};

/// Computes both from the mapping of the object that holds the runtime, and looks into the memory
/// whether they are there: an address that does not bear it out counts as not known. A runtime that
/// has no interpreter yet is taken as it is.
PythonAddresses python_addresses(const ElfFile& elf, const Mapping& mapping,
                                 const python_layout& layout, Memory& memory);

}  // namespace gcause
