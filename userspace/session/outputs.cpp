// SPDX-License-Identifier: Apache-2.0
#include "session/outputs.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <cstdlib>

#include "sink/jsonl.h"
#include "sink/text.h"

namespace gcause {
namespace {

TextOptions text_options(const Output& output) {
  TextOptions options;
  options.color = output.is_terminal() && std::getenv("NO_COLOR") == nullptr;
  winsize size = {};
  if (output.is_terminal() && ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) {
    options.width = size.ws_col;
  }
  return options;
}

}  // namespace

Outputs::Outputs(std::optional<Ns> budget_override)
    : attribution_(
          [this](const Finding& finding) {
            if (const auto* summary = std::get_if<SummaryFinding>(&finding)) {
              broken_by_collector_ |= !summary->budget_kept && summary->but_for_kept;
            }
            if (sink_) sink_->write(finding);
          },
          budget_override) {}

Result<std::unique_ptr<Outputs>> Outputs::make(Format format, const std::string& path, bool chunks,
                                               std::optional<Ns> budget_override) {
  std::unique_ptr<Outputs> outputs(new Outputs(budget_override));
  if (format == Format::recording) {
    auto writer = RecordingWriter::make(path, FileKind::recording);
    if (!writer) return writer.error();
    outputs->recording_ = *std::move(writer);
    return outputs;
  }
  auto output = Output::open(path);
  if (!output) return output.error();
  if (format == Format::jsonl) {
    outputs->sink_ = std::make_unique<JsonlSink>(*std::move(output), JsonlOptions{chunks});
  } else {
    const auto options = text_options(*output);
    outputs->sink_ = std::make_unique<TextSink>(*std::move(output), options);
  }
  return outputs;
}

void Outputs::consume(const TimelineEvent& event) {
  if (recording_) recording_->consume(event);
  attribution_.consume(event);
}

void Outputs::flush() {
  if (recording_) recording_->flush();
  if (sink_) sink_->flush();
}

Result<> Outputs::finish() {
  attribution_.finish();
  return recording_ ? recording_->finish() : sink_->finish();
}

}  // namespace gcause
