// SPDX-License-Identifier: Apache-2.0
#include "session/followed.h"

#include <poll.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <memory>
#include <utility>

#include "util/clock.h"
#include "util/overloaded.h"

namespace gcause {
namespace {

constexpr Ns kScanEvery = kSecond;
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
  if (now < next_scan_) return;
  next_scan_ = now + kScanEvery;
  for (auto& [pid, process] : processes_) {
    auto sites = sites_of_new_objects(procfs_, pid, process.target);
    if (!ends_.make_safe(process.target, sites)) continue;
    // A process that ends meanwhile is told by its exit.
    if (!sites.empty()) (void)!loader_.attach_sites(process.target, sites);
  }
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
