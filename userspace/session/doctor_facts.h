// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "target/procfs.h"
#include "target/target.h"
#include "util/result.h"
#include "util/time.h"

namespace gcause {

/// How the interpreter came into the process.
enum class PythonLinkage : std::uint8_t {
  in_executable,    ///< statically: the executable is the interpreter
  shared_library,   ///< a python executable with a libpython
  embedded_shared,  ///< another program with a libpython
  embedded_static,  ///< another program that holds the interpreter itself
};

/// How the ends of calls are taken.
enum class Ends : std::uint8_t { return_probes, exits };

/// Something that a recording will not see.
struct BlindSpot {
  std::string what;
  std::string cure;  ///< empty where there is none
};

/// What the doctor finds out about one process, beyond where its probes go.
struct TargetFacts {
  Target target;
  Ns search;  ///< how long it took to find all of it
  PythonLinkage linkage;
  std::optional<bool> debug_build;
  std::size_t children;
  std::string inner_pids;    ///< its numbers in the PID namespaces below ours, outermost first
  bool other_pid_namespace;  ///< than ours
  bool other_mount_namespace;
  Ends ends;
  std::vector<BlindSpot> blind_spots;
};

/// Looks at one process as a recording would, and attaches nothing. Fails where a recording would.
/// `features` as detect_features() gave them; what was tried for this process is entered.
Result<TargetFacts> collect_facts(const Procfs& procfs, std::uint32_t pid,
                                  std::map<std::string, bool>& features);

}  // namespace gcause
