// SPDX-License-Identifier: Apache-2.0
#include "session/outputs.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
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
              for (const auto& [direction, totals] : summary->by_direction) {
                broken_by_collector_ |= !totals.budget_kept && totals.but_for_kept;
              }
            }
            for (auto& sink : sinks_) sink->write(finding);
          },
          budget_override) {}

Result<std::unique_ptr<Outputs>> Outputs::make(const std::vector<OutputSpec>& specs, bool chunks,
                                               std::optional<Ns> budget_override) {
  std::unique_ptr<Outputs> outputs(new Outputs(budget_override));
  for (const auto& spec : specs) {
    if (auto opened = outputs->open(spec, chunks); !opened) return opened.error();
  }
  return outputs;
}

Result<> Outputs::open(const OutputSpec& spec, bool chunks) {
  if (spec.format == Format::recording) {
    auto writer = RecordingWriter::make(spec.path, FileKind::recording);
    if (!writer) return writer.error();
    recordings_.push_back(*std::move(writer));
    return Ok{};
  }
  auto output = Output::open(spec.path);
  if (!output) return output.error();
  if (spec.format == Format::jsonl) {
    sinks_.push_back(std::make_unique<JsonlSink>(*std::move(output), JsonlOptions{chunks}));
  } else {
    const auto options = text_options(*output);
    sinks_.push_back(std::make_unique<TextSink>(*std::move(output), options));
  }
  return Ok{};
}

void Outputs::consume(const TimelineEvent& event) {
  for (auto& recording : recordings_) recording->consume(event);
  attribution_.consume(event);
}

void Outputs::flush() {
  for (auto& recording : recordings_) recording->flush();
  for (auto& sink : sinks_) sink->flush();
}

bool Outputs::failed() const {
  const auto failed = [](const auto& output) { return output->failed(); };
  return std::any_of(recordings_.begin(), recordings_.end(), failed) ||
         std::any_of(sinks_.begin(), sinks_.end(), failed);
}

Result<> Outputs::finish() {
  attribution_.finish();
  Result<> result = Ok{};
  const auto keep = [&](const Result<>& finished) {
    if (result && !finished) result = finished;
  };
  for (auto& recording : recordings_) keep(recording->finish());
  for (auto& sink : sinks_) keep(sink->finish());
  return result;
}

}  // namespace gcause
