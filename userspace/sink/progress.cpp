// SPDX-License-Identifier: Apache-2.0
#include "sink/progress.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstddef>
#include <string_view>

#include "sink/names.h"
#include "sink/text_layout.h"

namespace gcause {
namespace {

constexpr std::string_view kEraseToEnd = "\x1b[K";

/// Columns of the terminal, asked each time because a window may be resized.
std::size_t columns_of(int fd) {
  winsize size{};
  if (::ioctl(fd, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return 80;
  return size.ws_col;
}

void put(int fd, std::string_view text) {
  // A line that could not be shown is no loss: the next one replaces it.
  [[maybe_unused]] const ssize_t written = ::write(fd, text.data(), text.size());
}

}  // namespace

std::string format_progress(const ProgressFigures& figures) {
  std::string line =
      "gcause: " +
      format_count(static_cast<std::uint64_t>(figures.elapsed > 0 ? figures.elapsed / kSecond : 0));
  line += " s, " + counted(figures.streams, "stream", "streams");
  line += ", " + counted(figures.chunks, "chunk", "chunks");
  line += ", " + counted(figures.pauses, "pause", "pauses");
  if (figures.worst_gap) {
    line += ", worst gap " + format_duration(figures.worst_gap->gap);
    if (figures.worst_gap->verdict) {
      line += " (" + std::string(name_of(*figures.worst_gap->verdict)) + ")";
    }
  }
  return line + ", " + format_count(figures.lost) + " lost";
}

ProgressLine::ProgressLine() : ProgressLine(STDERR_FILENO, ::isatty(STDERR_FILENO) == 1) {}

ProgressLine::ProgressLine(int fd, bool terminal) : fd_(fd), terminal_(terminal) {}

ProgressLine::~ProgressLine() { clear(); }

void ProgressLine::update(const ProgressFigures& figures) {
  if (!terminal_) return;
  std::string line = format_progress(figures);
  // A line that wraps cannot be rewritten by \r; the last column is left free for the same reason.
  const std::size_t room = columns_of(fd_) - 1;
  if (line.size() > room) line.resize(room);
  put(fd_, "\r" + line + std::string(kEraseToEnd));
  shown_ = true;
}

void ProgressLine::clear() {
  if (!shown_) return;
  put(fd_, "\r" + std::string(kEraseToEnd));
  shown_ = false;
}

}  // namespace gcause
