// SPDX-License-Identifier: Apache-2.0
#include "session/command.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "util/fd.h"

namespace gcause {
namespace {

[[noreturn]] void become(const std::vector<std::string>& command, int report_to) {
  std::vector<char*> arguments;
  arguments.reserve(command.size() + 1);
  for (const auto& word : command) arguments.push_back(const_cast<char*>(word.c_str()));
  arguments.push_back(nullptr);
  sigset_t none;
  sigemptyset(&none);
  ::sigprocmask(SIG_SETMASK, &none, nullptr);
  ::signal(SIGPIPE, SIG_DFL);
  ::execvp(arguments[0], arguments.data());
  const int error = errno;
  (void)!::write(report_to, &error, sizeof error);
  ::_exit(127);
}

}  // namespace

Result<std::uint32_t> start_command(const std::vector<std::string>& command) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0) {
    return Error{std::string("cannot make a pipe: ") + std::strerror(errno), "try again"};
  }
  const Fd read_end(ends[0]);
  Fd write_end(ends[1]);
  const pid_t child = ::fork();
  if (child < 0) {
    return Error{std::string("cannot start a process: ") + std::strerror(errno), "try again"};
  }
  if (child == 0) become(command, write_end.get());
  write_end = Fd();
  int error = 0;
  if (::read(read_end.get(), &error, sizeof error) == sizeof error) {
    ::waitpid(child, nullptr, 0);
    return Error{"cannot execute " + command[0] + ": " + std::strerror(error),
                 "give a command that is in PATH, or a path"};
  }
  return static_cast<std::uint32_t>(child);
}

}  // namespace gcause
