// SPDX-License-Identifier: Apache-2.0
#include "session/followed.h"

#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cstdio>
#include <memory>
#include <utility>

#include "util/clock.h"
#include "util/overloaded.h"

namespace gcause {
namespace {

constexpr Ns kScanEvery = kSecond;
constexpr Ns kLoadLookEvery = 2 * kMillisecond;  ///< where libraries are loaded one after another
constexpr Ns kLookEvery = 50 * kMillisecond;
constexpr Ns kExitRecordGrace = 300 * kMillisecond;
constexpr Ns kBecomesPythonWithin = 10 * kSecond;

bool has_ended(const Fd& pidfd) {
  pollfd poll = {pidfd.get(), POLLIN, 0};
  return pidfd && ::poll(&poll, 1, 0) > 0;
}

}  // namespace

Result<> FollowedProcesses::add(Target target) {
  const auto pid = target.pid;
  if (auto safe = ends_.make_safe(target, target.sites); !safe) return safe;
  Process process{std::move(target), Fd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0))), 0};
  auto attached = loader_.attach(process.target);
  if (!attached) {
    loader_.detach(pid);
    return attached;
  }
  candidates_.erase(pid);
  followed_(process.target, watch_settings(process));
  processes_.insert_or_assign(pid, std::move(process));
  return Ok{};
}

std::optional<CollectorSettings> FollowedProcesses::watch_settings(Process& process) {
  const auto& target = process.target;
  if (!target.generations_checked) return std::nullopt;
  process.settings.emplace(std::make_unique<ProcessMemory>(target.pid), *target.layout,
                           target.runtime_address);
  process.interpreters.emplace(std::make_unique<ProcessMemory>(target.pid), *target.layout,
                               target.runtime_address, procfs_, target.pid);
  std::optional<CollectorSettings> of_main;
  const Ns now = now_monotonic();
  for (auto& reading : process.settings->look(now)) {
    if (reading.interpreter == 0) {
      of_main = std::move(reading.gc);
    } else {
      first_settings_.push_back({now, target.pid, reading.interpreter, std::move(reading.gc)});
    }
  }
  return of_main;
}

/// A process that was followed before its interpreter was set up.
void FollowedProcesses::settle_layout(Process& process) {
  auto& target = process.target;
  if (target.generations_checked || !target.layout) return;
  check_generations(target);
  if (!target.generations_checked) return;
  // A process that ends meanwhile is told by its exit.
  (void)!loader_.refresh(target);
  if (auto gc = watch_settings(process)) {
    first_settings_.push_back({now_monotonic(), target.pid, 0, *std::move(gc)});
  }
}

std::vector<SettingsChanged> FollowedProcesses::settings_changes(Ns now) {
  auto changes = std::exchange(first_settings_, {});
  if (now < next_look_) return changes;
  next_look_ = now + kLookEvery;
  for (auto& [pid, process] : processes_) {
    if (!process.settings) continue;
    for (auto& reading : process.settings->look(now)) {
      changes.push_back({now_monotonic(), pid, reading.interpreter, std::move(reading.gc)});
    }
  }
  return changes;
}

std::vector<TimelineEvent> FollowedProcesses::interpreter_changes(Ns now) {
  std::vector<TimelineEvent> events;
  if (now < next_interpreter_look_) return events;
  next_interpreter_look_ = now + kLookEvery;
  for (auto& [pid, process] : processes_) {
    if (!process.interpreters) continue;
    const auto changes = process.interpreters->look(now);
    for (const auto& [id, lock] : changes.interpreters) {
      events.push_back(InterpreterFound{now, pid, id, lock});
    }
    for (const auto& [tid, interpreter] : changes.threads) {
      events.push_back(ThreadFound{now, pid, tid, interpreter});
    }
  }
  return events;
}

void FollowedProcesses::handle(const Event& event) {
  std::visit(Overloaded{
                 [&](const ProcessExit& e) { remove(e.pid); },
                 [&](const ProcessExec& e) {
                   remove(e.pid);
                   add_candidate(e.pid, e.at + kBecomesPythonWithin);
                 },
                 [&](const ProcessFork& e) {
                   if (with_children_) {
                     add_candidate(e.child, e.at + kBecomesPythonWithin);
                   } else {
                     ++ignored_children_;
                   }
                 },
                 [&](const Wait& e) {
                   if (e.in_read) blocked_in_read(e.pid);
                 },
                 [](const auto&) {},
             },
             event);
}

void FollowedProcesses::remove(std::uint32_t pid) {
  loader_.detach(pid);
  processes_.erase(pid);
  candidates_.erase(pid);
}

void FollowedProcesses::blocked_in_read(std::uint32_t pid) {
  const auto found = processes_.find(pid);
  if (found == processes_.end() || found->second.blocks_in_reads) return;
  found->second.blocks_in_reads = true;
  const auto& target = found->second.target;
  // Without them a read's return is known a little less well; a process that ends meanwhile is told
  // by its exit.
  (void)!loader_.attach_sites(target, target.blocking_sites);
}

void FollowedProcesses::tick(Ns now) {
  const auto candidates = candidates_;
  for (const auto& [pid, deadline] : candidates) {
    auto target = describe_target(procfs_, pid, {.cache = &collectors_});
    if (target && add(*std::move(target))) continue;
    if (now > deadline || !procfs_.alive(pid)) candidates_.erase(pid);
  }
  for (auto& [pid, process] : processes_) settle_layout(process);
  look_for_libraries(now);
}

/// The dynamic linker tells of what it loads. What it does not load is found once a second, by the
/// size of all code: the mappings themselves are read only where one of the two has changed.
void FollowedProcesses::look_for_libraries(Ns now) {
  const auto changes = loader_.library_changes();
  const bool told = changes != library_changes_ && now >= next_load_look_;
  if (!told && now < next_scan_) return;
  library_changes_ = changes;
  next_load_look_ = now + kLoadLookEvery;
  next_scan_ = now + kScanEvery;
  for (auto& [pid, process] : processes_) {
    const auto code_bytes = procfs_.code_bytes(pid);
    if (code_bytes == process.target.code_bytes) continue;
    process.target.code_bytes = code_bytes;
    const auto known = process.target.tls.size();
    probe_libraries(process, sites_of_new_objects(procfs_, process.target), known);
  }
}

/// `known` of the process's TLS libraries are probed already.
void FollowedProcesses::probe_libraries(Process& process, std::vector<ProbeSite> sites,
                                        std::size_t known) {
  auto& target = process.target;
  if (sites.empty() || !ends_.make_safe(target, sites) || sites.empty()) return;
  if (auto attached = loader_.attach_sites(target, sites); !attached) {
    // A process that ends meanwhile is told by its exit.
    if (!procfs_.alive(target.pid)) return;
    std::fprintf(stderr, "gcause: %s; its TLS streams are not seen\n",
                 attached.error().what.c_str());
    return;
  }
  for (auto i = known; i < target.tls.size(); ++i) {
    const auto& library = target.tls[i];
    tls_events_.push_back(TlsLibraryProbed{now_monotonic(), target.pid,
                                           TlsLibrary{library.object, library.functions}});
  }
}

void FollowedProcesses::name_reader(const StreamTracker::UnreadSocket& unread) {
  TlsReaderFound found{now_monotonic(), unread.pid, unread.socket, {}};
  if (const auto process = processes_.find(unread.pid); process != processes_.end()) {
    auto& target = process->second.target;
    if (const auto reader = tls_readers_.reader(target, unread.words)) {
      found.object = reader->path;
      const auto known = target.tls.size();
      if (!is_known_tls(target, *reader)) {
        probe_libraries(process->second, sites_in_code(procfs_, *reader, target), known);
      }
    }
  }
  tls_events_.push_back(std::move(found));
}

std::vector<std::uint32_t> FollowedProcesses::silently_ended(Ns now) {
  std::vector<std::uint32_t> ended;
  for (auto& [pid, process] : processes_) {
    if (process.ended_since == 0 && has_ended(process.pidfd)) process.ended_since = now;
    if (process.ended_since != 0 && now > process.ended_since + kExitRecordGrace) {
      ended.push_back(pid);
    }
  }
  return ended;
}

}  // namespace gcause
