// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

#include "util/fd.h"
#include "util/result.h"

namespace gcause {

/// A file or standard output, written through a buffer of 64 KiB. The first error is kept and told
/// by `finish`; what is written after it is dropped. A closed pipe is such an error only while
/// SIGPIPE is ignored, which is the session's part.
class Output {
 public:
  /// Creates or empties the file `path`; "-" is standard output, which is not closed in the end.
  /// Fails where the file cannot be created.
  static Result<Output> open(const std::string& path);

  Output(Output&&) noexcept = default;
  Output& operator=(Output&&) noexcept = default;

  void write(std::string_view bytes);

  /// Hands everything to the kernel, so that a reader of a pipe or a growing file sees it now.
  void flush();

  /// An error was met, and further writes are pointless.
  bool failed() const { return error_ != 0; }

  bool is_terminal() const;

  /// Flushes and closes; call it once. Without it, what the buffer holds is lost.
  Result<> finish();

 private:
  Output(Fd owned, int fd, std::string name);

  void drain(std::string_view bytes);

  Fd owned_;  ///< empty for standard output
  int fd_;
  std::string name_;  ///< as error messages call it
  std::string buffer_;
  int error_ = 0;  ///< errno of the first failure, 0 while there was none
};

}  // namespace gcause
