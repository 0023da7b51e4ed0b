// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <functional>
#include <optional>
#include <string>

#include "session/record.h"
#include "util/result.h"

namespace gcause {

/// What a subcommand does once the command line is known to be right.
using Action = std::function<Result<int>()>;

// Each adds one subcommand and fills `action` when it was chosen. `to_start` is what stood behind
// --.
void add_record(CLI::App& app, Action& action, const std::vector<std::string>& to_start);
void add_report(CLI::App& app, Action& action);
void add_doctor(CLI::App& app, Action& action);

/// --without FEATURE, repeatable.
CLI::Option* add_without(CLI::App& app, std::vector<std::string>& without);

/// A value that an option cannot take, with the cure.
class BadValue : public CLI::ValidationError {
 public:
  explicit BadValue(gcause::Error error)
      : CLI::ValidationError(error.what), error_(std::move(error)) {}
  const gcause::Error& error() const { return error_; }

 private:
  gcause::Error error_;
};

/// An option that takes a TIME; the value is checked while the command line is parsed.
CLI::Option* add_duration(CLI::App& app, const std::string& names, std::optional<Ns>& value,
                          const std::string& help);

/// -f and -o, as record and report share them. -o may be given several times, and then the ending
/// of each file decides its format.
struct OutputChoice {
  std::string format;
  std::vector<std::string> paths;

  void add_to(CLI::App& app);

  /// Throws a CLI::ValidationError where -f and several -o contradict each other.
  std::vector<OutputSpec> chosen() const;
};

}  // namespace gcause
