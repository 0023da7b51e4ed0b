// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "util/fd.h"

namespace gcause {

/// The memory of a process that goes on running: what is read may be half changed, and no address
/// found in it is trusted.
class Memory {
 public:
  virtual ~Memory() = default;

  /// Fills `into` from the virtual address; false, and `into` as it may be, where not all of it can
  /// be read.
  virtual bool read(std::uint64_t address, std::span<std::uint8_t> into) = 0;

  /// One value of a fixed width.
  template <typename T>
  std::optional<T> value(std::uint64_t address) {
    T value = {};
    const std::span bytes(reinterpret_cast<std::uint8_t*>(&value), sizeof value);
    return read(address, bytes) ? std::optional(value) : std::nullopt;
  }
};

/// The memory of another process by process_vm_readv(2), and where that is forbidden by
/// /proc/PID/mem. Needs CAP_SYS_PTRACE or the same user.
class ProcessMemory : public Memory {
 public:
  explicit ProcessMemory(std::uint32_t pid, std::string procfs_root = "/proc");

  bool read(std::uint64_t address, std::span<std::uint8_t> into) override;

 private:
  bool read_file(std::uint64_t address, std::span<std::uint8_t> into);

  std::uint32_t pid_;
  std::string file_path_;
  bool by_file_ = false;  ///< the system call does not work here
  Fd file_;
};

}  // namespace gcause
