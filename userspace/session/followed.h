// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "decode/event.h"
#include "loader/loader.h"
#include "recording/timeline.h"
#include "session/seccomp_ends.h"
#include "stream/stream_tracker.h"
#include "target/collector_cache.h"
#include "target/collector_settings.h"
#include "target/interpreter_watch.h"
#include "target/procfs.h"
#include "target/target.h"
#include "target/tls_reader.h"
#include "util/fd.h"
#include "util/result.h"

namespace gcause {

/// The set of followed processes: attaches, looks for new libraries, takes children in where that
/// was asked for, and lets go of what has ended.
class FollowedProcesses {
 public:
  using Followed = std::function<void(const Target&, const std::optional<CollectorSettings>&)>;

  /// `followed` is called for each process whose probes are in, with the settings of the main
  /// interpreter's collector where they can be read.
  FollowedProcesses(Loader& loader, const Procfs& procfs, CollectorCache& collectors,
                    SeccompEnds ends, bool with_children, Followed followed)
      : loader_(loader),
        procfs_(procfs),
        collectors_(collectors),
        ends_(std::move(ends)),
        with_children_(with_children),
        followed_(std::move(followed)),
        tls_readers_(procfs) {}

  /// Attaches to a process that has been described.
  Result<> add(Target target);

  /// To be attached to as soon as it has become a CPython process, until `deadline`.
  void add_candidate(std::uint32_t pid, Ns deadline) { candidates_[pid] = deadline; }

  /// Takes in forks, execs and exits.
  void handle(const Event& event);

  /// To be called several times a second: candidates, and libraries that were loaded.
  void tick(Ns now);

  /// Collectors that were set anew, or whose interpreter is new, since the last call; looks at most
  /// 20 times a second.
  std::vector<SettingsChanged> settings_changes(Ns now);

  /// Interpreters of processes that have several, and threads that run in another one, since the
  /// last call; looks at most 20 times a second.
  std::vector<TimelineEvent> interpreter_changes(Ns now);

  /// Finds out whose code reads a connection with TLS that no probed library reads; where that is a
  /// TLS library whose functions can be found in its code, they are probed from now on.
  void name_reader(const StreamTracker::UnreadSocket& unread);

  /// What was found out about TLS libraries since the last call.
  std::vector<TimelineEvent> take_tls() { return std::exchange(tls_events_, {}); }

  /// Processes whose exit the kernel told but no record did: to be ended by the caller.
  std::vector<std::uint32_t> silently_ended(Ns now);

  bool empty() const { return processes_.empty() && candidates_.empty(); }
  bool has_processes() const { return !processes_.empty(); }

  /// Children that were seen and not followed.
  std::size_t ignored_children() const { return ignored_children_; }
  void note_ignored_children(std::size_t count) { ignored_children_ += count; }

 private:
  struct Process {
    Target target;
    Fd pidfd;
    Ns ended_since = 0;  ///< the kernel says so; a record should follow
    bool blocks_in_reads = false;
    std::optional<SettingsWatch> settings = {};
    std::optional<InterpreterWatch> interpreters = {};
  };

  /// Begins to watch the collector's settings; returns those of the main interpreter.
  std::optional<CollectorSettings> watch_settings(Process& process);
  void settle_layout(Process& process);
  void remove(std::uint32_t pid);
  void look_for_libraries(Ns now);
  void probe_libraries(Process& process, std::vector<ProbeSite> sites, std::size_t known);
  void blocked_in_read(std::uint32_t pid);

  Loader& loader_;
  const Procfs& procfs_;
  CollectorCache& collectors_;
  SeccompEnds ends_;
  bool with_children_;
  Followed followed_;
  std::map<std::uint32_t, Process> processes_;
  std::map<std::uint32_t, Ns> candidates_;
  std::size_t ignored_children_ = 0;
  TlsReaders tls_readers_;
  std::vector<TimelineEvent> tls_events_;
  Ns next_scan_ = 0;
  Ns next_load_look_ = 0;
  std::uint32_t library_changes_ = 0;  ///< as the loader counted them when they were looked at
  Ns next_look_ = 0;
  Ns next_interpreter_look_ = 0;
  std::vector<SettingsChanged> first_settings_;  ///< of interpreters that were there at the attach
};

}  // namespace gcause
