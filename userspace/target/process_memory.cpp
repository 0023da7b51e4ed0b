// SPDX-License-Identifier: Apache-2.0
#include "target/process_memory.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cerrno>
#include <utility>

namespace gcause {
namespace {

/// User space ends below this on every machine; above it no address is worth a system call.
constexpr std::uint64_t kEndOfUserSpace = 1ull << 56;

}  // namespace

ProcessMemory::ProcessMemory(std::uint32_t pid, std::string procfs_root)
    : pid_(pid), file_path_(std::move(procfs_root) + "/" + std::to_string(pid) + "/mem") {}

bool ProcessMemory::read(std::uint64_t address, std::span<std::uint8_t> into) {
  if (address == 0 || address >= kEndOfUserSpace) return false;
  if (by_file_) return read_file(address, into);
  const iovec local = {into.data(), into.size()};
  // The address is of the other process.
  const iovec remote = {reinterpret_cast<void*>(address), into.size()};  // NOLINT
  const auto got = ::process_vm_readv(static_cast<pid_t>(pid_), &local, 1, &remote, 1, 0);
  if (got >= 0) return static_cast<std::size_t>(got) == into.size();
  // A seccomp filter or an old container runtime may forbid the call, but not the file.
  if (errno != ENOSYS && errno != EPERM) return false;
  by_file_ = true;
  return read_file(address, into);
}

bool ProcessMemory::read_file(std::uint64_t address, std::span<std::uint8_t> into) {
  if (!file_) file_ = Fd(::open(file_path_.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file_) return false;
  const auto got = ::pread(file_.get(), into.data(), into.size(), static_cast<off_t>(address));
  return got >= 0 && static_cast<std::size_t>(got) == into.size();
}

}  // namespace gcause
