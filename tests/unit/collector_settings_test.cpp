// SPDX-License-Identifier: Apache-2.0
#include "target/collector_settings.h"

#include <elf.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "memory_test_support.h"

namespace gcause {
namespace {

constexpr std::uint64_t kRuntime = 0x1000, kMain = 0x10000, kOther = 0x20000;
constexpr std::uint64_t kObjects = 0x100000;

/// A process of 3.12 with a main interpreter and its collector as it comes.
class Process {
 public:
  explicit Process(WalkLimits limits = {}, python_layout with = layout_3_12()) : layout(with) {
    auto owned = std::make_unique<FakeMemory>();
    memory = owned.get();
    memory->put(kRuntime + layout.runtime_finalizing, std::uint64_t{0});
    memory->put(kRuntime + layout.runtime_interpreters, kMain);
    add_interpreter(kMain, 0, 0);
    watch = std::make_unique<SettingsWatch>(std::move(owned), layout, kRuntime, limits);
  }

  void add_interpreter(std::uint64_t at, std::int64_t id, std::uint64_t next) {
    memory->put(at + layout.interpreter_id, id);
    memory->put(at + layout.interpreter_next, next);
    set_enabled(at, 1);
    set_thresholds(at, {700, 10, 10});
    freeze(at, 0);
  }

  std::uint64_t gc(std::uint64_t interpreter) const { return interpreter + layout.interpreter_gc; }
  std::uint64_t permanent(std::uint64_t interpreter) const {
    return gc(interpreter) + layout.gc_permanent;
  }

  void set_enabled(std::uint64_t interpreter, std::int32_t enabled) {
    memory->put(gc(interpreter) + layout.gc_enabled, enabled);
  }

  void set_thresholds(std::uint64_t interpreter, std::vector<std::int32_t> thresholds) {
    for (std::size_t i = 0; i < 3; ++i) {
      const auto generation = gc(interpreter) + layout.gc_generations + i * 24;
      memory->put(generation + 16, thresholds[i]);
      memory->put(generation + 20, static_cast<std::int32_t>(i + 1));
    }
  }

  /// `count` objects of 64 bytes in the list of frozen ones, with flags in their links.
  void freeze(std::uint64_t interpreter, std::uint64_t count) {
    auto before = permanent(interpreter);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto object = kObjects + i * 64;
      memory->link(before, object, i % 2);
      before = object;
    }
    memory->link(before, permanent(interpreter));
  }

  std::vector<SettingsReading> look(int second) { return watch->look(second * kSecond); }

  python_layout layout;
  FakeMemory* memory;
  std::unique_ptr<SettingsWatch> watch;
};

TEST_CASE("the first look tells the settings, the second nothing") {
  Process process;
  const auto first = process.look(1);
  REQUIRE(first.size() == 1);
  CHECK(first[0].interpreter == 0);
  CHECK(first[0].gc == CollectorSettings{true, {700, 10, 10}, {1, 2, 3}, 0});
  CHECK(process.look(2).empty());
  CHECK(process.look(3).empty());
}

TEST_CASE("a look at what has not changed is a handful of reads") {
  Process process;
  (void)process.look(1);
  (void)process.look(2);
  process.memory->reads = 0;
  (void)process.look(3);
  CHECK(process.memory->reads <= 6);
}

TEST_CASE("each setting that changes is told, counts alone are not") {
  Process process;
  (void)process.look(1);
  process.set_enabled(kMain, 0);
  auto told = process.look(2);
  REQUIRE(told.size() == 1);
  CHECK(told[0].gc.enabled == false);
  process.set_thresholds(kMain, {2000, 5, 0});
  told = process.look(3);
  REQUIRE(told.size() == 1);
  CHECK(told[0].gc.thresholds == std::vector<std::int64_t>{2000, 5, 0});
  process.freeze(kMain, 1000);
  told = process.look(4);
  REQUIRE(told.size() == 1);
  CHECK(told[0].gc.frozen == 1000);
  process.freeze(kMain, 0);
  told = process.look(5);
  REQUIRE(told.size() == 1);
  CHECK(told[0].gc.frozen == 0);
  process.memory->put(process.gc(kMain) + process.layout.gc_generations + 20, 699);
  CHECK(process.look(6).empty());
}

TEST_CASE("what was still under way at a look is told by the next") {
  Process process;
  (void)process.look(1);
  process.freeze(kMain, 10);
  REQUIRE(process.look(2).at(0).gc.frozen == 10);
  // One from the middle goes: the ends of the list are what they were.
  process.memory->link(kObjects + 3 * 64, kObjects + 5 * 64);
  REQUIRE(process.look(3).at(0).gc.frozen == 9);
  CHECK(process.look(4).empty());
}

TEST_CASE("interpreters come and go") {
  Process process;
  (void)process.look(1);
  process.add_interpreter(kOther, 1, kMain);
  process.memory->put(kRuntime + process.layout.runtime_interpreters, kOther);
  auto told = process.look(2);
  REQUIRE(told.size() == 1);
  CHECK(told[0].interpreter == 1);
  process.memory->put(kRuntime + process.layout.runtime_interpreters, kMain);
  CHECK(process.look(3).empty());
  process.memory->put(kRuntime + process.layout.runtime_interpreters, kOther);
  CHECK(process.look(4).size() == 1);
}

TEST_CASE("a list of interpreters without an end is followed for 64 of them") {
  Process process;
  for (std::uint64_t i = 0; i < 100; ++i) {
    const auto at = 0x1000000 + i * 0x10000;
    process.add_interpreter(at, static_cast<std::int64_t>(i + 1), at + 0x10000);
  }
  process.memory->put(kRuntime + process.layout.runtime_interpreters, std::uint64_t{0x1000000});
  CHECK(process.look(1).size() == 64);
  // One that leads back to itself is seen once.
  process.memory->put(kMain + process.layout.interpreter_next, kMain);
  process.memory->put(kRuntime + process.layout.runtime_interpreters, kMain);
  CHECK(process.look(2).size() == 1);
}

TEST_CASE("what cannot be a collector's state is not told") {
  Process process;
  SECTION("enabled is neither 0 nor 1") { process.set_enabled(kMain, 7); }
  SECTION("the lists have not been made") {
    process.memory->put(process.permanent(kMain), std::uint64_t{0});
  }
  SECTION("no interpreter yet") {
    process.memory->put(kRuntime + process.layout.runtime_interpreters, std::uint64_t{0});
  }
  SECTION("the interpreter is nowhere") {
    process.memory->put(kRuntime + process.layout.runtime_interpreters, std::uint64_t{0xdead0000});
  }
  SECTION("a negative number") {
    process.memory->put(kMain + process.layout.interpreter_id, std::int64_t{-1});
  }
  SECTION("the runtime ends") {
    process.memory->put(kRuntime + process.layout.runtime_finalizing, std::uint64_t{0x5000});
  }
  SECTION("the layout makes no sense") {
    auto layout = layout_3_12();
    layout.gc_permanent = 1u << 30;
    process.watch = std::make_unique<SettingsWatch>(std::make_unique<FakeMemory>(*process.memory),
                                                    layout, kRuntime);
  }
  CHECK(process.look(1).empty());
}

TEST_CASE("3.8 has one collector for all, in the runtime") {
  std::string why;
  const auto layout = layout_of_version(0x03080000, EM_X86_64, why);
  REQUIRE(layout);
  auto owned = std::make_unique<FakeMemory>();
  auto& memory = *owned;
  const auto gc = kRuntime + layout->runtime_gc;
  memory.put(kRuntime + layout->runtime_finalizing, std::uint64_t{0});
  memory.put(kRuntime + layout->runtime_interpreters, kMain);
  memory.put(gc + layout->gc_enabled, 1);
  for (std::uint64_t i = 0; i < 3; ++i) {
    memory.put(gc + layout->gc_generations + i * 24 + 16, 700);
    memory.put(gc + layout->gc_generations + i * 24 + 20, 0);
  }
  memory.link(gc + layout->gc_permanent, kObjects);
  memory.link(kObjects, gc + layout->gc_permanent);
  SettingsWatch watch(std::move(owned), *layout, kRuntime);
  const auto told = watch.look(1);
  REQUIRE(told.size() == 1);
  CHECK(told[0].interpreter == 0);
  CHECK(told[0].gc == CollectorSettings{true, {700, 700, 700}, {0, 0, 0}, 1});
}

TEST_CASE("a free-threaded build keeps no list of frozen objects") {
  auto layout = layout_3_12();
  layout.flags = LAYOUT_FREE_THREADED;
  Process process({}, layout);
  process.memory->put(process.permanent(kMain), std::uint64_t{0});
  const auto told = process.look(1);
  REQUIRE(told.size() == 1);
  CHECK(told[0].gc.enabled == true);
  CHECK_FALSE(told[0].gc.frozen);
}

TEST_CASE("a list that does not close is not counted") {
  Process process;
  process.freeze(kMain, 100);
  auto& memory = *process.memory;
  const auto head = process.permanent(kMain);
  const auto middle = kObjects + 50 * 64;
  CHECK(count_objects(memory, head) == 100);
  SECTION("it leads back into itself") { memory.put(middle, kObjects); }
  SECTION("it leads to itself") { memory.put(middle, middle); }
  SECTION("it leads nowhere") { memory.put(middle, std::uint64_t{0xdead0000}); }
  SECTION("it leads to 0") { memory.put(middle, std::uint64_t{0}); }
  SECTION("it leads between two words") { memory.put(middle, kObjects + 51 * 64 + 4); }
  SECTION("it leaves some out") { memory.put(middle, kObjects + 60 * 64); }
  SECTION("backward it leads elsewhere") { memory.put(middle + 8, kObjects); }
  CHECK_FALSE(count_objects(memory, head));
  const auto told = process.look(1);
  REQUIRE(told.size() == 1);
  CHECK(told[0].gc.enabled == true);
  CHECK_FALSE(told[0].gc.frozen);
}

TEST_CASE("a walk ends at its limits") {
  Process process;
  process.freeze(kMain, 10'000);
  const auto head = process.permanent(kMain);
  CHECK(count_objects(*process.memory, head, {.objects = 10'000, .time = kSecond}) == 10'000);
  CHECK_FALSE(count_objects(*process.memory, head, {.objects = 9'999, .time = kSecond}));
  CHECK_FALSE(count_objects(*process.memory, head, {.objects = 10'000, .time = -1}));
  CHECK_FALSE(count_objects(*process.memory, 0xdead0000));
}

TEST_CASE("readings take a share of the time, and the last change is told in the end") {
  Process process;
  process.freeze(kMain, 20'000);
  REQUIRE(process.look(100).size() == 1);
  int told = 1, enabled = 1;
  for (; told < 100'000; ++told) {
    process.set_enabled(kMain, enabled = 1 - enabled);
    if (process.look(100).empty()) break;
  }
  CHECK(told < 100'000);
  CHECK(process.look(100).empty());
  const auto late = process.look(3600);
  REQUIRE(late.size() == 1);
  CHECK(late[0].gc.enabled == (enabled == 1));
}

}  // namespace
}  // namespace gcause
