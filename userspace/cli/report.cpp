// SPDX-License-Identifier: Apache-2.0
#include "session/report.h"

#include <memory>

#include "cli/commands.h"

namespace gcause {
namespace {

struct ReportLine {
  ReportOptions options;
  OutputChoice output;
};

}  // namespace

void add_report(CLI::App& app, Action& action) {
  auto line = std::make_shared<ReportLine>();
  auto* command = app.add_subcommand("report", "Report on a recording");
  command->add_option("recording", line->options.recording, "file made with record -o FILE.gcause")
      ->type_name("RECORDING")
      ->required();
  line->output.add_to(*command);
  add_duration(*command, "-b,--budget", line->options.budget,
               "judge by this budget instead of the recording's");
  command->add_flag("--chunks", line->options.chunks, "write a line for every chunk and every gap");
  command->add_flag("--check", line->options.check,
                    "exit with 3 if the budget is broken because of the collector");
  command->callback([line, &action] {
    line->options.outputs = line->output.chosen();
    action = [line] { return report(line->options); };
  });
}

}  // namespace gcause
