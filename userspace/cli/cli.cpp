// SPDX-License-Identifier: Apache-2.0
#include "cli/cli.h"

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "version.h"

namespace gcause {
namespace {

constexpr int kFailed = 1;
constexpr int kWrongCommandLine = 2;

bool is_command(const CLI::App& app, const std::string& name) {
  for (const auto* command : app.get_subcommands(nullptr)) {
    if (command->get_name() == name) return true;
  }
  return false;
}

/// Two lines: what failed and why, and what cures it.
int say(const Error& error, int code) {
  std::fprintf(stderr, "gcause: %s\n", error.what.c_str());
  std::fprintf(stderr, "  hint: %s\n", error.cure.c_str());
  return code;
}

}  // namespace

int run_command_line(int argc, char** argv) {
  CLI::App app{"Which garbage-collector pauses of a Python process broke its token streams"};
  app.name("gcause");
  app.set_version_flag("--version", std::string("gcause ") + kVersion);
  app.require_subcommand(1);
  Action action;
  // What stands behind -- is another program's command line, and none of ours.
  std::vector<std::string> words(argv + (argc > 0), argv + argc), to_start;
  const auto mark = std::find(words.begin(), words.end(), "--");
  if (mark != words.end()) to_start.assign(mark + 1, words.end());
  words.erase(mark, words.end());
  std::reverse(words.begin(), words.end());  // as CLI11 takes them
  add_record(app, action, to_start);
  add_report(app, action);
  add_doctor(app, action);
  try {
    app.parse(words);
  } catch (const CLI::Success& success) {
    return app.exit(success);
  } catch (const BadValue& bad) {
    return say(bad.error(), kWrongCommandLine);
  } catch (const CLI::ParseError& error) {
    const std::string first = argc > 1 ? argv[1] : "";
    if (!first.empty() && first[0] != '-' && !is_command(app, first)) {
      return say({"there is no command " + first, "gcause --help lists them"}, kWrongCommandLine);
    }
    const auto chosen = app.get_subcommands();
    const std::string subject = chosen.empty() ? "" : " " + chosen.front()->get_name();
    return say({error.what(), "gcause" + subject + " --help lists what it takes"},
               kWrongCommandLine);
  }
  auto code = action();
  return code ? *code : say(code.error(), kFailed);
}

}  // namespace gcause
