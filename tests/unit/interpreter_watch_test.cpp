// SPDX-License-Identifier: Apache-2.0
#include "target/interpreter_watch.h"

#include <elf.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "memory_test_support.h"

namespace gcause {
namespace {

constexpr std::uint64_t kRuntime = 0x1000, kMain = 0x10000, kOther = 0x20000, kThird = 0x30000;
constexpr std::uint64_t kLock = 0x500000, kOtherLock = 0x600000;
constexpr std::uint32_t kUsedLast = 8;

/// A process 7 of 3.12 in a PID namespace of its own: its thread n is thread 100 + n outside.
class Process {
 public:
  explicit Process(python_layout with = layout_3_12()) : layout(with) {
    root_ = std::filesystem::temp_directory_path() / ("gcause." + std::to_string(::getpid()));
    for (int tid = 1; tid <= 4; ++tid) {
      const auto folder = root_ / "7" / "task" / std::to_string(100 + tid);
      std::filesystem::create_directories(folder);
      std::ofstream(folder / "status")
          << "Name:\tx\nNSpid:\t" << 100 + tid << "\t50\t" << tid << "\n";
    }
    auto owned = std::make_unique<FakeMemory>();
    memory = owned.get();
    memory->put(kRuntime + layout.runtime_finalizing, std::uint64_t{0});
    memory->put(kRuntime + layout.runtime_interpreters, kMain);
    interpreter(kMain, 0, kLock, 0);
    watch_ = std::make_unique<InterpreterWatch>(std::move(owned), layout, kRuntime,
                                                Procfs(root_.string()), 7);
  }
  ~Process() { std::filesystem::remove_all(root_); }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  /// Threads are told by `threads`.
  void interpreter(std::uint64_t at, std::int64_t id, std::uint64_t lock, std::uint64_t next) {
    memory->put(at + layout.interpreter_id, id);
    memory->put(at + layout.interpreter_gil, lock);
    memory->put(at + layout.interpreter_next, next);
    memory->put(at + layout.interpreter_threads, std::uint64_t{0});
  }

  struct Thread {
    std::uint64_t native_id;
    std::uint32_t status = 0;
  };
  void threads(std::uint64_t interpreter, const std::vector<Thread>& list) {
    auto link = interpreter + layout.interpreter_threads;
    for (std::size_t i = 0; i < list.size(); ++i) {
      const auto state = interpreter + 0x8000 + i * 0x400;
      memory->put(link, state);
      memory->put(state + layout.thread_native_id, list[i].native_id);
      memory->put(state + layout.thread_status, list[i].status);
      link = state + layout.thread_next;
    }
    memory->put(link, std::uint64_t{0});
  }

  InterpreterWatch::Changes look() { return watch_->look(++seconds_ * kSecond); }

  python_layout layout;
  FakeMemory* memory;

 private:
  std::filesystem::path root_;
  std::unique_ptr<InterpreterWatch> watch_;
  Ns seconds_ = 0;
};

using Interpreters = std::vector<InterpreterWatch::Interpreter>;
using Threads = std::vector<InterpreterWatch::Thread>;

/// Two interpreters, each with a lock and a thread.
void add_other(Process& process, std::uint64_t lock = kOtherLock) {
  process.interpreter(kMain, 0, kLock, 0);
  process.interpreter(kOther, 1, lock, kMain);
  process.memory->put(kRuntime + process.layout.runtime_interpreters, kOther);
  process.threads(kMain, {{1}});
  process.threads(kOther, {{2}});
}

TEST_CASE("nothing is said of a process with one interpreter") {
  Process process;
  process.threads(kMain, {{1}, {2}});
  for (int i = 0; i < 3; ++i) {
    const auto changes = process.look();
    CHECK(changes.interpreters.empty());
    CHECK(changes.threads.empty());
  }
}

TEST_CASE("interpreters and their threads are told once, by the numbers of outside") {
  Process process;
  add_other(process);
  auto changes = process.look();
  CHECK(changes.interpreters == Interpreters{{1, 1}, {0, 0}});
  CHECK(changes.threads == Threads{{101, 0}, {102, 1}});
  changes = process.look();
  CHECK(changes.interpreters.empty());
  CHECK(changes.threads.empty());
}

TEST_CASE("interpreters without a lock of their own share the first one's") {
  Process process;
  add_other(process, kLock);
  process.interpreter(kThird, 2, kOtherLock, kOther);
  process.memory->put(kRuntime + process.layout.runtime_interpreters, kThird);
  CHECK(process.look().interpreters == Interpreters{{2, 2}, {1, 0}, {0, 0}});
}

TEST_CASE("without the interpreter lock each interpreter stops its own threads") {
  auto layout = layout_3_12();
  layout.flags |= LAYOUT_FREE_THREADED;
  Process process(layout);
  add_other(process, kLock);
  CHECK(process.look().interpreters == Interpreters{{1, 1}, {0, 0}});
}

TEST_CASE("a thread with states in two interpreters is in the one that it used last") {
  Process process;
  add_other(process);
  process.threads(kMain, {{1, kUsedLast}, {3}});
  process.threads(kOther, {{3, kUsedLast | 1}, {1}, {2}});
  CHECK(process.look().threads == Threads{{101, 0}, {102, 1}, {103, 1}});
  process.threads(kMain, {{1, kUsedLast}, {3, kUsedLast}});
  process.threads(kOther, {{3}, {1}, {2}});
  CHECK(process.look().threads == Threads{{103, 0}});
  // Seen in between: neither, or both.
  process.threads(kMain, {{1, kUsedLast}, {3}});
  CHECK(process.look().threads == Threads{{103, std::nullopt}});
}

TEST_CASE("a thread that is gone, or whose number is not known outside, is in none") {
  Process process;
  add_other(process);
  (void)process.look();
  process.threads(kOther, {{9}, {0}, {1ull << 40}});
  CHECK(process.look().threads == Threads{{102, std::nullopt}});
}

TEST_CASE("lists without an end are left at some point") {
  Process process;
  add_other(process);
  process.memory->put(kMain + process.layout.interpreter_next, kOther);
  const auto state = kOther + 0x8000;
  process.memory->put(state + process.layout.thread_next, state);
  const auto changes = process.look();
  CHECK(changes.threads == Threads{{102, 1}});
  CHECK(process.memory->reads < 100'000);
}

TEST_CASE("memory that cannot be read, or a runtime that ends, says nothing") {
  Process process;
  add_other(process);
  SECTION("the head of the list") {
    process.memory->put(kRuntime + process.layout.runtime_interpreters, std::uint64_t{0xdead0000});
  }
  SECTION("the end of the runtime") {
    process.memory->put(kRuntime + process.layout.runtime_finalizing, std::uint64_t{1});
  }
  const auto changes = process.look();
  CHECK(changes.interpreters.empty());
  CHECK(changes.threads.empty());
}

TEST_CASE("versions without such locks are left alone") {
  std::string why;
  const auto layout = layout_of_version(0x030b00f0, EM_X86_64, why);
  REQUIRE(layout);
  CHECK(layout->interpreter_gil == 0);
  Process process(*layout);
  process.memory->reads = 0;
  (void)process.look();
  CHECK(process.memory->reads == 0);
}

}  // namespace
}  // namespace gcause
