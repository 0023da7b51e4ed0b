// SPDX-License-Identifier: Apache-2.0
#include "session/report.h"

#include <filesystem>

#include "recording/recording.h"
#include "session/outputs.h"

namespace gcause {

Result<int> report(const ReportOptions& options) {
  for (const auto& output : options.outputs) {
    std::error_code none;
    if (output.path != "-" && std::filesystem::equivalent(output.path, options.recording, none)) {
      return Error{"cannot write " + output.path + ": it is the recording itself",
                   "give -o another file"};
    }
  }
  std::unique_ptr<Outputs> outputs;
  std::optional<Error> cannot_open;
  // The output is made when the first event has come: a file that is no recording leaves none.
  const auto consume = [&](const TimelineEvent& event) {
    if (!outputs && !cannot_open) {
      auto made = Outputs::make(options.outputs, options.chunks, options.budget);
      if (made) {
        outputs = *std::move(made);
      } else {
        cannot_open = made.error();
      }
    }
    if (outputs) outputs->consume(event);
  };
  auto replayed = replay(options.recording, FileKind::recording, {consume, {}});
  if (cannot_open) return *cannot_open;
  if (outputs) {
    if (auto finished = outputs->finish(); !finished) return finished.error();
  }
  if (!replayed) return replayed.error();
  return options.check && outputs && outputs->broken_by_collector() ? 3 : 0;
}

}  // namespace gcause
