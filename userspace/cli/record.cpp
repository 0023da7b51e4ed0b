// SPDX-License-Identifier: Apache-2.0
#include <memory>

#include "cli/commands.h"

namespace gcause {
namespace {

constexpr unsigned kSmallestRingKib = 64;

struct RecordLine {
  RecordOptions options;
  OutputChoice output;
  std::optional<Ns> budget;
  std::optional<Ns> trigger;
  std::vector<std::string> without;
  std::uint32_t ring_kib = 4096;
};

std::string check_ring_size(const std::string& text) {
  const auto kib = std::strtoul(text.c_str(), nullptr, 10);
  const bool power_of_two = kib >= kSmallestRingKib && kib <= (1u << 20) && (kib & (kib - 1)) == 0;
  return power_of_two ? "" : "give a power of two from 64 to 1048576 (KiB)";
}

}  // namespace

void add_record(CLI::App& app, Action& action, const std::vector<std::string>& to_start) {
  auto line = std::make_shared<RecordLine>();
  auto* command = app.add_subcommand(
      "record", "Attach to a process and record its pauses, streams and verdicts");
  command->footer(
      "In place of -p, a command behind -- is started and followed: gcause record -- CMD ARG...");
  command->add_option("-p,--pid", line->options.pid, "attach to this process")
      ->type_name("PID")
      ->check(CLI::Range(1u, 4194304u));
  add_duration(*command, "-d,--duration", line->options.duration,
               "stop after this time; without it, at Ctrl-C or when the process ends");
  add_duration(*command, "-b,--budget", line->budget,
               "the p99 that chunk gaps have to keep [100ms]");
  line->output.add_to(*command);
  command->add_flag("-s,--subprocesses", line->options.subprocesses,
                    "also follow the children, present and future");
  command->add_flag("--chunks", line->options.chunks, "write a line for every chunk and every gap");
  command->add_flag("--check", line->options.check,
                    "exit with 3 if the budget is broken because of the collector");
  command->add_flag("-v,--verbose", line->options.verbose,
                    "say at the end how much came from the kernel, on standard error");
  add_duration(*command, "--trigger", line->trigger,
               "name the line of code that started a pause of at least this length [1ms]");
  command->add_option("--ring-size", line->ring_kib, "kernel ring buffer, KiB, a power of two")
      ->type_name("KIB")
      ->capture_default_str()
      ->check(CLI::Validator(check_ring_size, ""));
  add_without(*command, line->without);
  command
      ->add_option("--raw-capture", line->options.raw_capture,
                   "also write the kernel's records, payload included: never in production")
      ->type_name("FILE")
      ->group("Testing");
  command->callback([line, &action, &to_start] {
    auto& options = line->options;
    options.command = to_start;
    if (options.pid.has_value() == !options.command.empty()) {
      throw BadValue({"record needs one thing to follow", "give -p PID, or a command behind --"});
    }
    options.budget = line->budget.value_or(options.budget);
    options.trigger = line->trigger.value_or(options.trigger);
    options.outputs = line->output.chosen();
    options.without = {line->without.begin(), line->without.end()};
    options.ring_bytes = line->ring_kib * 1024;
    action = [line] { return record(line->options); };
  });
}

}  // namespace gcause
