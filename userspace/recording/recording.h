// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <memory>
#include <span>
#include <string>

#include "recording/timeline.h"
#include "util/result.h"

namespace gcause {

// A file of frames behind a magic word and a version: 32-bit length, 16-bit kind, then the fields.
// A recording (`.gcause`) holds the timeline. A raw capture holds the kernel's records, payload
// included, between the parts of the timeline that do not come from them; it is made by a test
// option only, and turns a live run into a replay test.

inline constexpr std::uint32_t kRecordingVersion = 1;

enum class FileKind : std::uint8_t { recording, raw_capture };

/// Writes a recording or a raw capture. Errors are kept and told by `finish`.
class RecordingWriter : public TimelineConsumer {
 public:
  /// "-" is standard output. Fails where the file cannot be made.
  static Result<std::unique_ptr<RecordingWriter>> make(const std::string& path, FileKind kind);

  void consume(const TimelineEvent& event) override;

  /// One batch of kernel records; for raw captures.
  void write_records(std::span<const std::byte> records);

  /// Hands what was written so far to the kernel, so that it outlives this process.
  void flush();

  /// Nothing more can be written; `finish` will say why.
  bool failed() const { return error_ != 0; }

  Result<> finish();

 private:
  struct Closer {
    void operator()(std::FILE* file) const {
      if (file != stdout) std::fclose(file);
    }
  };

  RecordingWriter(std::string path, std::unique_ptr<std::FILE, Closer> file)
      : path_(std::move(path)), file_(std::move(file)) {}

  void write_frame(std::uint16_t kind, const void* bytes, std::size_t size);
  void note_error();

  std::string path_;
  std::unique_ptr<std::FILE, Closer> file_;
  int error_ = 0;
};

struct ReplayHandlers {
  std::function<void(const TimelineEvent&)> event;
  std::function<void(std::span<const std::byte>)> records;  ///< raw captures only
};

/// Reads a file of `kind` and hands on what it holds, in order. Fails, after having handed on all
/// that is whole, where the file is cut off or damaged; fails before that where it is none, or was
/// written by a later version.
Result<> replay(const std::string& path, FileKind kind, const ReplayHandlers& handlers);

/// Whether the file begins like a recording.
bool is_recording(const std::string& path);

}  // namespace gcause
