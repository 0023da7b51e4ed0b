// SPDX-License-Identifier: Apache-2.0
#include "target/interpreter_watch.h"

#include <time.h>

namespace gcause {
namespace {

constexpr std::size_t kMostInterpreters = 64;
constexpr std::size_t kMostThreads = 8192;
constexpr Ns kLookShare = 20;  ///< one part of this many goes into looks
/// Include/cpython/pystate.h, 3.12 to 3.15: initialized, bound, unbound, bound_gilstate: the state
/// that the thread used last, of those it has in several interpreters.
constexpr std::uint32_t kBoundGilstate = 8;

Ns cpu_time() {
  timespec now = {};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return now.tv_sec * kSecond + now.tv_nsec;
}

}  // namespace

std::vector<InterpreterWatch::State> InterpreterWatch::states() {
  std::vector<State> found;
  auto address = memory_->value<std::uint64_t>(runtime_ + layout_.runtime_interpreters);
  while (address.value_or(0) != 0 && found.size() < kMostInterpreters) {
    const auto id = memory_->value<std::int64_t>(*address + layout_.interpreter_id);
    const auto gil = memory_->value<std::uint64_t>(*address + layout_.interpreter_gil);
    const auto threads = memory_->value<std::uint64_t>(*address + layout_.interpreter_threads);
    if (!id || !gil || !threads) break;
    // One that is still being made has no lock yet.
    if (*gil != 0) found.push_back({*id, *gil, *threads});
    address = memory_->value<std::uint64_t>(*address + layout_.interpreter_next);
  }
  return found;
}

/// Without the lock each interpreter stops its own threads only.
std::vector<InterpreterWatch::Interpreter> InterpreterWatch::with_locks(
    const std::vector<State>& states) const {
  std::map<std::uint64_t, std::int64_t> first;  // by lock
  for (const auto& state : states) {
    const auto [entry, is_new] = first.try_emplace(state.gil, state.id);
    if (state.id < entry->second) entry->second = state.id;
  }
  std::vector<Interpreter> interpreters;
  for (const auto& state : states) {
    const bool free_threaded = layout_.flags & LAYOUT_FREE_THREADED;
    interpreters.push_back({state.id, free_threaded ? state.id : first.at(state.gil)});
  }
  return interpreters;
}

/// The interpreter of each thread, by the number that the process itself has for it. One that has
/// states in several interpreters is in the one whose state it used last.
std::map<std::uint32_t, std::int64_t> InterpreterWatch::native_threads(
    const std::vector<State>& states) {
  struct Found {
    std::int64_t interpreter;
    bool used_last;
    bool sure;
  };
  std::map<std::uint32_t, Found> found;
  std::size_t count = 0;
  for (const auto& state : states) {
    auto address = state.threads;
    while (address != 0 && count++ < kMostThreads) {
      const auto id = memory_->value<std::uint64_t>(address + layout_.thread_native_id);
      const auto status = memory_->value<std::uint32_t>(address + layout_.thread_status);
      const auto next = memory_->value<std::uint64_t>(address + layout_.thread_next);
      if (!id || !status || !next) break;
      address = *next;
      if (*id == 0 || *id > UINT32_MAX) continue;
      const bool used_last = *status & kBoundGilstate;
      const auto [entry, is_new] =
          found.try_emplace(static_cast<std::uint32_t>(*id), Found{state.id, used_last, true});
      auto& known = entry->second;
      if (is_new || known.interpreter == state.id) continue;
      if (known.used_last == used_last) {
        known.sure = false;
      } else if (used_last) {
        known = {state.id, true, true};
      }
    }
  }
  std::map<std::uint32_t, std::int64_t> sure;
  for (const auto& [id, thread] : found) {
    if (thread.sure) sure[id] = thread.interpreter;
  }
  return sure;
}

/// The interpreter of each thread, by the number that gcause has for it.
std::map<std::uint32_t, std::int64_t> InterpreterWatch::threads(const std::vector<State>& states) {
  const auto native = native_threads(states);
  std::set<std::uint32_t> ids;
  for (const auto& [id, interpreter] : native) ids.insert(id);
  if (ids != native_ids_) {
    tids_ = procfs_.threads_by_native_id(pid_);
    native_ids_ = std::move(ids);
  }
  std::map<std::uint32_t, std::int64_t> threads;
  for (const auto& [id, interpreter] : native) {
    const auto tid = tids_.find(id);
    if (tid != tids_.end()) threads[tid->second] = interpreter;
  }
  return threads;
}

InterpreterWatch::Changes InterpreterWatch::look(Ns now) {
  Changes changes;
  if (now < next_look_ || layout_.interpreter_gil == 0 || layout_.thread_status == 0) {
    return changes;
  }
  const Ns begin = cpu_time();
  const auto finalizing = memory_->value<std::uint64_t>(runtime_ + layout_.runtime_finalizing);
  if (finalizing != std::uint64_t{0}) return changes;
  const auto present = states();
  if (present.size() < 2 && locks_.empty()) return changes;
  for (const auto& interpreter : with_locks(present)) {
    const auto [known, is_new] = locks_.try_emplace(interpreter.id, interpreter.lock);
    if (!is_new && known->second == interpreter.lock) continue;
    known->second = interpreter.lock;
    changes.interpreters.push_back(interpreter);
  }
  auto found = threads(present);
  for (const auto& [tid, interpreter] : interpreters_) {
    if (!found.contains(tid)) changes.threads.push_back({tid, std::nullopt});
  }
  for (const auto& [tid, interpreter] : found) {
    const auto known = interpreters_.find(tid);
    if (known != interpreters_.end() && known->second == interpreter) continue;
    changes.threads.push_back({tid, interpreter});
  }
  interpreters_ = std::move(found);
  next_look_ = now + (cpu_time() - begin) * kLookShare;
  return changes;
}

}  // namespace gcause
