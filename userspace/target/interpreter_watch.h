// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "target/layout.h"
#include "target/process_memory.h"
#include "target/procfs.h"
#include "util/time.h"

namespace gcause {

/// Watches which interpreters a process has, which of them share a lock, and which thread runs in
/// which: from 3.12 on, where an interpreter may have a lock of its own. Looks at 64 interpreters
/// and 8192 thread states at most, and says nothing of a process that never has more than one
/// interpreter.
class InterpreterWatch {
 public:
  /// `runtime` is the address of _PyRuntime in `memory`, the process's.
  InterpreterWatch(std::unique_ptr<Memory> memory, const python_layout& layout,
                   std::uint64_t runtime, Procfs procfs, std::uint32_t pid)
      : memory_(std::move(memory)),
        layout_(layout),
        runtime_(runtime),
        procfs_(std::move(procfs)),
        pid_(pid) {}

  struct Interpreter {
    std::int64_t id;
    std::int64_t lock;  ///< the first interpreter that has the same lock
    bool operator==(const Interpreter&) const = default;
  };

  struct Thread {
    std::uint32_t tid;
    std::optional<std::int64_t> interpreter;  ///< none: it ended, or that is no longer known
    bool operator==(const Thread&) const = default;
  };

  struct Changes {
    std::vector<Interpreter> interpreters;
    std::vector<Thread> threads;
  };

  /// What is new or another way since the last look. At most a twentieth of a CPU goes into it.
  Changes look(Ns now);

 private:
  /// One PyInterpreterState.
  struct State {
    std::int64_t id;
    std::uint64_t gil;  ///< address of its lock
    std::uint64_t threads;
  };

  std::vector<State> states();
  std::vector<Interpreter> with_locks(const std::vector<State>& states) const;
  std::map<std::uint32_t, std::int64_t> native_threads(const std::vector<State>& states);
  std::map<std::uint32_t, std::int64_t> threads(const std::vector<State>& states);

  std::unique_ptr<Memory> memory_;
  python_layout layout_;
  std::uint64_t runtime_;
  Procfs procfs_;
  std::uint32_t pid_;
  Ns next_look_ = 0;
  std::map<std::int64_t, std::int64_t> locks_;          ///< as told, by interpreter
  std::map<std::uint32_t, std::int64_t> interpreters_;  ///< as told, by thread
  std::set<std::uint32_t> native_ids_;                  ///< of the last look
  std::map<std::uint32_t, std::uint32_t> tids_;         ///< by native id, of these
};

}  // namespace gcause
