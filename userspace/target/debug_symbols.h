// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "target/elf_file.h"
#include "util/result.h"

namespace gcause {

/// A file with the symbols that were stripped off another.
struct DebugFile {
  std::string name;  ///< its path, or what it is, for people
  ElfFile elf;
};

/// The symbol table that Fedora and its kin keep, compressed, in the binary itself (section
/// .gnu_debugdata). The error says in `what` why there is none.
Result<DebugFile> mini_debug_info(const ElfFile& elf);

/// The separate debug file: by build-id or by the name in .gnu_debuglink, first in the file system
/// that the target sees, then in that of this process, then, if DEBUGINFOD_URLS is set, from a
/// server. A file of another build-id is not taken. `seen_path` is the binary's path as the target
/// sees it, `root` the target's root directory. The error says in `what` where was looked.
Result<DebugFile> separate_debug_file(const ElfFile& elf, const std::string& seen_path,
                                      const std::string& root);

}  // namespace gcause
