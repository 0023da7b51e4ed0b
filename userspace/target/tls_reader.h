// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "target/procfs.h"
#include "target/target.h"

namespace gcause {

/// Finds out which mapped file is the TLS library behind a system call. Every implementation of TLS
/// holds the same few texts (speaks_tls), which tell it from what only moves bytes. Files are looked
/// at once in the life of the object.
class TlsReaders {
 public:
  explicit TlsReaders(const Procfs& procfs) : procfs_(procfs) {}

  /// `words` are the address of a system call of `target` and what the stack held from its top on.
  /// The library is the first file on the stack that speaks TLS. If none does, the program moves the
  /// ciphertext itself: then it is the one file in the process that speaks TLS and is not probed.
  /// If there is none at all, it is the file that made the call, of whose TLS nothing is known.
  /// Nothing where several could be it, or Python made the call.
  std::optional<Mapping> reader(const Target& target, std::span<const std::uint64_t> words);

 private:
  bool speaks(std::uint32_t pid, const Mapping& mapping);

  const Procfs& procfs_;
  std::map<FileKey, bool> speaks_;
};

}  // namespace gcause
