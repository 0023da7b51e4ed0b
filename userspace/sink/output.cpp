// SPDX-License-Identifier: Apache-2.0
#include "sink/output.h"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <system_error>
#include <utility>

namespace gcause {
namespace {

constexpr std::size_t kBufferSize = 65'536;

std::string folder_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string cure_for(int error) {
  switch (error) {
    case ENOSPC:
    case EDQUOT:
      return "free some space there, or write to another file system with -o FILE";
    case EPIPE:
      return "the program that reads the output ended first; let it read to the end, or write to "
             "a file with -o FILE";
    case EFBIG:
      return "raise the limit on the size of a file (ulimit -f), or record for a shorter time";
    case EACCES:
    case EPERM:
    case EROFS:
      return "choose a place that this user may write to with -o FILE";
    case EISDIR:
      return "name a file in that folder with -o FILE";
    default:
      return "check the place, or choose another with -o FILE";
  }
}

Error cannot_write(const std::string& name, int error, std::string cure) {
  return Error{"cannot write " + name + ": " + std::generic_category().message(error),
               std::move(cure)};
}

}  // namespace

Result<Output> Output::open(const std::string& path) {
  if (path == "-") return Output(Fd(), STDOUT_FILENO, "standard output");
  if (path.empty()) {
    return Error{"cannot write a file without a name", "name a file, or - for standard output"};
  }
  Fd fd(::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd) {
    const int error = errno;
    const bool no_folder = error == ENOENT || error == ENOTDIR;
    return cannot_write(
        path, error, no_folder ? "create the folder first: " + folder_of(path) : cure_for(error));
  }
  const int number = fd.get();
  return Output(std::move(fd), number, path);
}

Output::Output(Fd owned, int fd, std::string name)
    : owned_(std::move(owned)), fd_(fd), name_(std::move(name)) {
  buffer_.reserve(kBufferSize);
}

void Output::write(std::string_view bytes) {
  if (failed()) return;
  if (buffer_.size() + bytes.size() > kBufferSize) flush();
  if (bytes.size() > kBufferSize) {
    drain(bytes);
  } else {
    buffer_.append(bytes);
  }
}

void Output::flush() {
  drain(buffer_);
  buffer_.clear();
}

bool Output::is_terminal() const { return ::isatty(fd_) == 1; }

void Output::drain(std::string_view bytes) {
  while (!bytes.empty() && !failed()) {
    const ssize_t written = ::write(fd_, bytes.data(), bytes.size());
    if (written >= 0) {
      bytes.remove_prefix(static_cast<std::size_t>(written));
    } else if (errno == EAGAIN) {
      // Another holder of a shared terminal or pipe has made it non-blocking.
      pollfd ready{fd_, POLLOUT, 0};
      if (::poll(&ready, 1, -1) < 0 && errno != EINTR) error_ = errno;
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
}

Result<> Output::finish() {
  flush();
  // Network file systems tell of a full disk only when the file is closed.
  if (owned_ && ::close(owned_.release()) != 0 && !failed() && errno != EINTR) error_ = errno;
  if (failed()) return cannot_write(name_, error_, cure_for(error_));
  return Ok{};
}

}  // namespace gcause
