// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "util/result.h"

namespace gcause {

/// One file-backed executable mapping of a process, first of its file.
struct Mapping {
  std::uint64_t begin;   ///< virtual address
  std::uint64_t end;     ///< virtual address, exclusive
  std::uint64_t offset;  ///< into the file, bytes
  std::uint64_t inode;
  std::string path;  ///< as the process sees it
};

/// Reads what the kernel tells about one process. `root` is where procfs is mounted; tests give it
/// a recorded tree.
class Procfs {
 public:
  explicit Procfs(std::string root = "/proc") : root_(std::move(root)) {}

  /// Whether the process exists and is no zombie.
  bool alive(std::uint32_t pid) const;

  /// The process that `id` is a thread of; itself, if it is a process.
  std::uint32_t process_of(std::uint32_t id) const;

  /// Start time in clock ticks since boot: with the pid it names a process once and for all.
  Result<std::uint64_t> start_ticks(std::uint32_t pid) const;

  /// The file that the process executes, as it sees it.
  Result<std::string> exe(std::uint32_t pid) const;

  /// The executable mappings, one per file, in the order of addresses.
  Result<std::vector<Mapping>> executable_mappings(std::uint32_t pid) const;

  /// A path under which this process can open the file behind a mapping of `pid`, checked by inode:
  /// through the root of the process, so other mount namespaces work, else by the mapping itself,
  /// so deleted and replaced files do.
  Result<std::string> open_path(std::uint32_t pid, const Mapping& mapping) const;

  /// The root directory of the process, as a path that this process can follow.
  std::string root_directory(std::uint32_t pid) const { return of(pid) + "/root"; }

  /// The pids of the children, present ones only.
  std::vector<std::uint32_t> children(std::uint32_t pid) const;

 private:
  std::string of(std::uint32_t pid) const { return root_ + "/" + std::to_string(pid); }

  std::string root_;
};

}  // namespace gcause
