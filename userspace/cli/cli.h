// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace gcause {

/// Parses the command line, runs the subcommand, and returns the exit code of the process: 0 done,
/// 1 could not do it (two lines on standard error), 2 wrong command line, 3 see --check.
int run_command_line(int argc, char** argv);

}  // namespace gcause
