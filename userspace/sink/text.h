// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "sink/output.h"
#include "sink/sink.h"
#include "sink/text_report.h"

namespace gcause {

struct TextOptions {
  bool color = false;
  int width = 100;  ///< columns of the page; 80 to 100 are used
  /// How long was recorded. Without it the report counts from the session's start to the last
  /// instant that any finding names.
  std::optional<Ns> duration = std::nullopt;
};

/// The report for people. It collects, and prints when the recording is over; memory grows with
/// the number of pauses and streams, not with that of chunks.
class TextSink : public Sink {
 public:
  TextSink(Output output, TextOptions options);

  void write(const Finding& finding) override;
  Result<> finish() override;

 private:
  void add(const SessionStarted& session);
  void add(const ProcessFollowed& process);
  void add(const SettingsChanged& change);
  void add(const PauseFinding& finding);
  void add(const StreamFinding& stream);
  void add(const StreamUnread& stream);
  void add(const ChunkFinding& chunk);
  void add(const GapFinding& gap);
  void add(const Lost& lost);
  void add(const WindowFinding& window);
  void add(const SummaryFinding& summary);
  void add(const TlsLibraryProbed& probed);
  void add(const TlsUnreadFinding& finding);
  void add(const RecordingEnded& ended) { saw(ended.at); }

  ProcessReport& of(std::uint32_t pid);
  void saw(Ns instant);

  Output output_;
  TextOptions options_;
  TextReport report_;
  std::map<std::uint32_t, std::size_t> current_;  ///< by pid, the newest process that had it
  std::optional<Ns> first_;
  std::optional<Ns> last_;
};

}  // namespace gcause
