// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstdint>
#include <map>
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
  std::uint64_t device;  ///< of the file system, as a dev_t
  std::string path;      ///< as the kernel writes it: a newline as \\012, and " (deleted)"
};

/// What tells one mapped file from others: a path may come to name another file. The numbers alone do
/// not, as the files of an overlayfs may share them.
struct FileKey {
  std::uint64_t device;
  std::uint64_t inode;
  std::string path;

  explicit FileKey(const Mapping& mapping)
      : device(mapping.device), inode(mapping.inode), path(mapping.path) {}
  auto operator<=>(const FileKey&) const = default;
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

  /// The bytes of all executable mappings; 0 if that is not told. It changes when a library comes or
  /// goes, and to look at it costs the process nothing, where the mappings take its lock and a time that
  /// grows with their number.
  std::uint64_t code_bytes(std::uint32_t pid) const;

  /// A path under which this process can open the very file behind a mapping of `pid`:
  /// 1. through the root of the process, so other mount namespaces work, or through our own, in
  ///    which the paths of a chrooted process are told; the device and the inode have to agree;
  /// 2. the mapping itself (map_files), so files that were deleted or replaced on disk work; it
  ///    takes CAP_SYS_ADMIN or CAP_CHECKPOINT_RESTORE;
  /// 3. a path of 1. with the right inode on another device, as overlayfs and btrfs tell a device
  ///    of their own: if what the process has mapped of it is what stands in the file.
  Result<std::string> open_path(std::uint32_t pid, const Mapping& mapping) const;

  /// The value of a field of /proc/PID/status, such as "NSpid".
  std::optional<std::string> status_field(std::uint32_t pid, std::string_view name) const;

  /// A namespace of the process, such as "pid:[4026531836]" for "pid"; empty if that is not told.
  std::string name_space(std::uint32_t pid, const std::string& kind) const;

  /// Whether any thread of the process runs under a seccomp filter or in strict mode.
  bool filtered_by_seccomp(std::uint32_t pid) const;

  /// The root directory of the process, as a path that this process can follow.
  std::string root_directory(std::uint32_t pid) const { return of(pid) + "/root"; }

  /// The threads of a process by the number that it has for them itself, in its own PID namespace;
  /// at most 65536.
  std::map<std::uint32_t, std::uint32_t> threads_by_native_id(std::uint32_t pid) const;

  /// The pids of the children, present ones only.
  std::vector<std::uint32_t> children(std::uint32_t pid) const;

 private:
  std::string of(std::uint32_t pid) const { return root_ + "/" + std::to_string(pid); }
  std::vector<std::string> candidates(std::uint32_t pid, const Mapping& mapping) const;
  bool same_content(std::uint32_t pid, const Mapping& mapping, const std::string& path) const;

  std::string root_;
};

}  // namespace gcause
