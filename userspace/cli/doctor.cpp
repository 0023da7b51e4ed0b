// SPDX-License-Identifier: Apache-2.0
#include "session/doctor.h"

#include <memory>

#include "cli/commands.h"

namespace gcause {
namespace {

struct DoctorLine {
  DoctorOptions options;
  std::string format = "text";
  std::vector<std::string> without;
};

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  auto line = std::make_shared<DoctorLine>();
  auto* command =
      app.add_subcommand("doctor", "Say what this host, and a process, allow: attaches nothing");
  command->add_option("-p,--pid", line->options.pid, "look at this process")
      ->type_name("PID")
      ->check(CLI::Range(1u, 4194304u));
  command->add_option("-f,--format", line->format, "text or json")
      ->check(CLI::IsMember({"text", "json"}))
      ->capture_default_str();
  add_without(*command, line->without);
  command->callback([line, &action] {
    line->options.without = {line->without.begin(), line->without.end()};
    line->options.json = line->format == "json";
    action = [line] { return doctor(line->options); };
  });
}

}  // namespace gcause
