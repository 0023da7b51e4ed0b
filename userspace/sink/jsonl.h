// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "sink/output.h"
#include "sink/sink.h"

namespace gcause {

struct JsonlOptions {
  bool chunks = false;  ///< also a line for every chunk and for every gap within the budget
};

/// Writes the JSON lines of the output contract: one finding, one object, one line, in the order
/// in which the findings come. Text from the target may be invalid UTF-8; such bytes become U+FFFD.
class JsonlSink : public Sink {
 public:
  JsonlSink(Output output, JsonlOptions options);

  void write(const Finding& finding) override;
  Result<> finish() override;

  /// Shows a reader of the pipe or file all lines so far. By itself the sink does so only after a
  /// `session`, `process` or `summary` line.
  void flush() override;

  /// The output takes no more, so that a recording without an end may as well end.
  bool failed() const override { return output_.failed(); }

 private:
  Output output_;
  JsonlOptions options_;
  std::string line_;  ///< kept, so that a line costs no allocation
};

}  // namespace gcause
