// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "attribution/attribution.h"
#include "recording/recording.h"
#include "session/record.h"
#include "sink/sink.h"

namespace gcause {

/// Hands the timeline to several consumers, in their order.
class Tee : public TimelineConsumer {
 public:
  void add(TimelineConsumer& consumer) { consumers_.push_back(&consumer); }
  void consume(const TimelineEvent& event) override {
    for (auto* consumer : consumers_) consumer->consume(event);
  }

 private:
  std::vector<TimelineConsumer*> consumers_;
};

/// Everything behind the timeline: attribution, and the sinks and recordings that were asked for.
class Outputs : public TimelineConsumer {
 public:
  /// Opens the outputs, so that one that cannot be written is known before anything is attached.
  static Result<std::unique_ptr<Outputs>> make(const std::vector<OutputSpec>& specs, bool chunks,
                                               std::optional<Ns> budget_override);

  void consume(const TimelineEvent& event) override;
  Result<> finish();

  /// An output takes no more.
  bool failed() const;

  const Progress& progress() const { return attribution_.progress(); }

  /// The budget of some process is broken, and would be kept but for the pauses.
  bool broken_by_collector() const { return broken_by_collector_; }

  /// What was written so far outlives this process from here on.
  void flush();

 private:
  explicit Outputs(std::optional<Ns> budget_override);
  Result<> open(const OutputSpec& spec, bool chunks);

  std::vector<std::unique_ptr<Sink>> sinks_;
  std::vector<std::unique_ptr<RecordingWriter>> recordings_;
  Attribution attribution_;
  bool broken_by_collector_ = false;
};

}  // namespace gcause
