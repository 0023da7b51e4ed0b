// SPDX-License-Identifier: Apache-2.0
//
// The first byte says what kind of file the rest is, and whether it is put behind a good head, so
// that its frames are looked at. What a file hands on is written again: that file must be whole as
// far as it goes, and hand on the same.

#include <sys/mman.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "recording/recording.h"
#include "util/fd.h"

namespace {

using gcause::FileKind;

void require(bool condition) {
  if (!condition) std::abort();
}

/// A file in memory that goes away with its object.
class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : fd_(::memfd_create("fuzz", MFD_CLOEXEC)) {
    require(static_cast<bool>(fd_));
    require(::pwrite(fd_.get(), bytes.data(), bytes.size(), 0) ==
            static_cast<::ssize_t>(bytes.size()));
  }
  std::string path() const { return "/proc/self/fd/" + std::to_string(fd_.get()); }
  std::string bytes() const {
    std::string bytes(static_cast<std::size_t>(::lseek(fd_.get(), 0, SEEK_END)), '\0');
    require(::pread(fd_.get(), bytes.data(), bytes.size(), 0) ==
            static_cast<::ssize_t>(bytes.size()));
    return bytes;
  }

 private:
  gcause::Fd fd_;
};

/// The file that `path` becomes when what it hands on is written again.
std::string copied(const std::string& path, FileKind kind, bool& whole) {
  const MemoryFile copy("");
  auto writer = gcause::RecordingWriter::make(copy.path(), kind);
  require(static_cast<bool>(writer));
  const auto result = gcause::replay(
      path, kind,
      {[&](const gcause::TimelineEvent& event) { (*writer)->consume(event); },
       [&](std::span<const std::byte> records) { (*writer)->write_records(records); }});
  whole = static_cast<bool>(result);
  if (!result) require(!result.error().what.empty() && !result.error().cure.empty());
  require(static_cast<bool>((*writer)->finish()));
  return copy.bytes();
}

std::string_view head_of(FileKind kind) {
  return kind == FileKind::recording ? std::string_view("GCAUSE\r\n\x01\0\0\0", 12)
                                     : std::string_view("GCRAW\x1a\r\n\x01\0\0\0", 12);
}

/// Frames of known kinds whose lengths fit: random ones are rare.
std::string framed(std::string_view bytes) {
  std::string frames;
  while (bytes.size() >= 2) {
    const auto kind = static_cast<std::uint8_t>(bytes[0]) % 17;
    const auto part = bytes.substr(2, static_cast<std::uint8_t>(bytes[1]));
    frames += {static_cast<char>(part.size()), 0, 0, 0, static_cast<char>(kind), 0};
    frames += part;
    bytes.remove_prefix(2 + part.size());
  }
  return frames;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const unsigned rule = data[0];
  const std::string_view bytes(reinterpret_cast<const char*>(data) + 1, size - 1);
  const FileKind kind = (rule & 1) != 0 ? FileKind::raw_capture : FileKind::recording;
  std::string text((rule & 2) != 0 ? head_of(kind) : std::string_view());
  text += (rule & 4) != 0 ? framed(bytes) : std::string(bytes);

  const MemoryFile file(text);
  bool whole = false, copy_whole = false;
  const auto copy = copied(file.path(), kind, whole);
  if (copy.size() > head_of(kind).size()) {
    const MemoryFile second(copy);
    require(copied(second.path(), kind, copy_whole) == copy);
    require(!whole || copy_whole);
  }
  (void)gcause::is_recording(file.path());
  return 0;
}
