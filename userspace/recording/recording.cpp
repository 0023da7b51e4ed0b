// SPDX-License-Identifier: Apache-2.0
#include "recording/recording.h"

#include <cerrno>
#include <cstring>
#include <optional>
#include <vector>

#include "recording/archive.h"
#include "recording/timeline_fields.h"

namespace gcause {
namespace {

constexpr char kRecordingMagic[8] = {'G', 'C', 'A', 'U', 'S', 'E', '\r', '\n'};
constexpr char kRawMagic[8] = {'G', 'C', 'R', 'A', 'W', '\x1a', '\r', '\n'};
constexpr std::uint16_t kKernelRecords = 0;
constexpr std::uint32_t kLongestFrame = 64u << 20;

const char* magic_of(FileKind kind) {
  return kind == FileKind::recording ? kRecordingMagic : kRawMagic;
}

// Frame kinds are append-only: the place of an event in this list is its number, from 1 on.
using FrameOrder =
    std::variant<SessionStarted, ProcessFollowed, PauseBegan, PauseEnded, StreamBegan, ChunkRead,
                 StreamEnded, WaitBegan, Lost, ProcessEnded, RecordingEnded, SettingsChanged,
                 InterpreterFound, ThreadFound, LockWaited, TlsLibraryProbed, TlsReaderFound,
                 TlsUnread, StreamUnread>;
static_assert(std::is_same_v<FrameOrder, TimelineEvent>);

template <std::size_t Index = 0>
std::optional<TimelineEvent> read_event(std::size_t index, std::span<const std::uint8_t> bytes) {
  if constexpr (Index < std::variant_size_v<TimelineEvent>) {
    if (index != Index) return read_event<Index + 1>(index, bytes);
    std::variant_alternative_t<Index, TimelineEvent> event{};
    Reader reader(bytes);
    fields(reader, event);
    if (!reader.ok()) return std::nullopt;
    return event;
  } else {
    return std::nullopt;
  }
}

Error cut_off(const std::string& path, std::uint64_t at) {
  return Error{"recording " + path + " is cut off at byte " + std::to_string(at),
               "what was whole has been reported; gcause was killed or the disk was full while "
               "recording: record again"};
}

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

Result<std::unique_ptr<RecordingWriter>> RecordingWriter::make(const std::string& path,
                                                               FileKind kind) {
  std::FILE* file = path == "-" ? stdout : std::fopen(path.c_str(), "wbe");
  if (!file) {
    return Error{"cannot write " + path + ": " + std::strerror(errno),
                 "give a file in a folder that exists and can be written"};
  }
  std::unique_ptr<RecordingWriter> writer(
      new RecordingWriter(path, std::unique_ptr<std::FILE, Closer>(file)));
  Writer version;
  version(kRecordingVersion);
  if (std::fwrite(magic_of(kind), 8, 1, file) != 1 ||
      std::fwrite(version.bytes().data(), version.bytes().size(), 1, file) != 1) {
    writer->note_error();
  }
  return writer;
}

void RecordingWriter::note_error() {
  if (error_ == 0) error_ = errno ? errno : EIO;
}

void RecordingWriter::write_frame(std::uint16_t kind, const void* bytes, std::size_t size) {
  Writer head;
  head(static_cast<std::uint32_t>(size))(kind);
  if (std::fwrite(head.bytes().data(), head.bytes().size(), 1, file_.get()) != 1 ||
      (size > 0 && std::fwrite(bytes, size, 1, file_.get()) != 1)) {
    note_error();
  }
}

void RecordingWriter::consume(const TimelineEvent& event) {
  Writer writer;
  std::visit([&](const auto& e) { writer(e); }, event);
  write_frame(static_cast<std::uint16_t>(event.index() + 1), writer.bytes().data(),
              writer.bytes().size());
}

void RecordingWriter::write_records(std::span<const std::byte> records) {
  write_frame(kKernelRecords, records.data(), records.size());
}

void RecordingWriter::flush() {
  if (std::fflush(file_.get()) != 0) note_error();
}

Result<> RecordingWriter::finish() {
  flush();
  if (error_) {
    return Error{"cannot write " + path_ + ": " + std::strerror(error_),
                 "make room or give -o another place; what was written before can be reported"};
  }
  return Ok{};
}

Result<> replay(const std::string& path, FileKind kind, const ReplayHandlers& handlers) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rbe"));
  if (!file) {
    return Error{"cannot read " + path + ": " + std::strerror(errno), "check the file's name"};
  }
  std::uint8_t head[12];
  const auto got = std::fread(head, 1, sizeof head, file.get());
  if (got < 8 || std::memcmp(head, magic_of(kind), 8) != 0) {
    return Error{path + " is not a recording of gcause",
                 "make one with: gcause record -p PID -o FILE.gcause"};
  }
  std::uint64_t at = got;
  if (got < sizeof head) return cut_off(path, at);
  std::uint32_t version = 0;
  Reader({head + 8, 4})(version);
  if (version > kRecordingVersion) {
    return Error{path + " was written by a later gcause (recording version " +
                     std::to_string(version) + ", this one reads up to " +
                     std::to_string(kRecordingVersion) + ")",
                 "use the gcause that wrote it, or a later one"};
  }
  std::vector<std::uint8_t> bytes;
  bool ended = false;
  for (std::uint8_t frame[6];;) {
    const auto frame_got = std::fread(frame, 1, sizeof frame, file.get());
    if (frame_got == 0) break;
    std::uint32_t length = 0;
    std::uint16_t number = 0;
    if (frame_got == sizeof frame) Reader{std::span<const std::uint8_t>(frame)}(length)(number);
    if (frame_got < sizeof frame || length > kLongestFrame) return cut_off(path, at);
    bytes.resize(length);
    if (std::fread(bytes.data(), 1, length, file.get()) != length) return cut_off(path, at);
    at += sizeof frame + length;
    if (number == kKernelRecords) {
      if (handlers.records) handlers.records(std::as_bytes(std::span(bytes)));
    } else if (number <= std::variant_size_v<TimelineEvent>) {
      const auto event = read_event(number - 1, bytes);
      if (!event) return cut_off(path, at);
      ended = std::holds_alternative<RecordingEnded>(*event);
      handlers.event(*event);
    }
  }
  if (!ended) return cut_off(path, at);
  return Ok{};
}

bool is_recording(const std::string& path) {
  const std::unique_ptr<std::FILE, FileCloser> file(std::fopen(path.c_str(), "rbe"));
  char head[8];
  return file && std::fread(head, 1, 8, file.get()) == 8 &&
         std::memcmp(head, kRecordingMagic, 8) == 0;
}

}  // namespace gcause
