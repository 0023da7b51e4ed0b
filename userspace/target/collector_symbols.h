// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "target/code_range.h"
#include "target/elf_file.h"
#include "target/layout.h"

namespace gcause {

/// A function of the collector, or one beside it.
struct CollectorFunction {
  std::string name;
  std::uint64_t address;          ///< ELF virtual address of its entry
  std::uint64_t size;             ///< of the stretch that is entered, bytes; 0 if not known
  std::vector<CodeRange> ranges;  ///< all its code: the stretch that is entered, then fragments
};

/// Whether a symbol is this function or a clone of it: compilers append .constprop.0, .isra.0,
/// .part.0, .lto_priv.0 (GCC), .llvm.123 (clang), also several. Fragments (.cold) are none.
bool is_clone_of(std::string_view symbol, std::string_view function);

/// The functions of interest in a symbol table.
struct CollectorSymbols {
  std::vector<CollectorFunction> collectors;
  std::vector<CollectorFunction> world_stops;   ///< of free-threaded builds only
  std::vector<CollectorFunction> world_starts;  ///< of free-threaded builds only
  std::size_t functions = 0;                    ///< how many functions the table has in all
};

/// Reads .symtab and .dynsym. The collector is `collect` up to 3.9, gc_collect_main from 3.10 on
/// and _PyGC_Collect in 3.14.0 to 3.14.4 (Modules/gcmodule.c, Python/gc.c,
/// Python/gc_free_threading.c); where there is a gc_collect_main, _PyGC_Collect only jumps to it.
CollectorSymbols collector_symbols(const ElfFile& elf, const PythonBuild& build);

}  // namespace gcause
