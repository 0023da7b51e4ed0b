// SPDX-License-Identifier: Apache-2.0
#include "target/python_process.h"

#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>

#include "memory_test_support.h"
#include "target/python.h"

// What the linker gives this test program; its own file and memory are the ones to look into.
extern "C" const char gcause_test_symbol[] __attribute__((used, visibility("default"))) = "here";

namespace gcause {
namespace {

using namespace std::string_view_literals;

std::uint64_t address_of(const void* place) { return reinterpret_cast<std::uint64_t>(place); }

TEST_CASE("own memory is read by the system call and by the file, and not beyond its end") {
  ProcessMemory memory(static_cast<std::uint32_t>(::getpid()));
  const std::uint64_t value = 0x1122334455667788;
  CHECK(memory.value<std::uint64_t>(address_of(&value)) == value);
  CHECK_FALSE(memory.value<std::uint64_t>(0));
  CHECK_FALSE(memory.value<std::uint64_t>(8));
  CHECK_FALSE(memory.value<std::uint64_t>(~std::uint64_t{0} - 7));
  CHECK_FALSE(memory.value<std::uint64_t>(0xffff800000000000));

  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  void* pages =
      ::mmap(nullptr, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  REQUIRE(pages != MAP_FAILED);
  REQUIRE(::munmap(static_cast<char*>(pages) + page, page) == 0);
  std::array<std::uint8_t, 16> bytes;
  CHECK(memory.read(address_of(pages) + page - 16, bytes));
  CHECK_FALSE(memory.read(address_of(pages) + page - 8, bytes));
  ::munmap(pages, page);
}

TEST_CASE("a process that is not there has no memory") {
  ProcessMemory memory(0x7ffffff0);
  CHECK_FALSE(memory.value<std::uint64_t>(0x400000));
}

TEST_CASE("the load bias leads from the file to the memory of this very program") {
  const Procfs procfs;
  const auto pid = static_cast<std::uint32_t>(::getpid());
  const auto exe = procfs.exe(pid);
  const auto mappings = procfs.executable_mappings(pid);
  REQUIRE(exe);
  REQUIRE(mappings);
  for (const auto& mapping : *mappings) {
    if (mapping.path != *exe) continue;
    const auto elf = ElfFile::open(mapping.path);
    REQUIRE(elf);
    const auto bias = load_bias(*elf, mapping);
    const auto symbol = elf->find("gcause_test_symbol");
    REQUIRE(bias);
    REQUIRE(symbol);
    CHECK(*bias + symbol->address == address_of(gcause_test_symbol));
    // A mapping of what no segment has.
    CHECK_FALSE(load_bias(*elf, {mapping.begin, mapping.end, 1ull << 40, 0, 0, mapping.path}));
    // This program has no CPython in it: nothing is known, and nothing is guessed.
    ProcessMemory memory(pid);
    const auto addresses = python_addresses(*elf, mapping, {}, memory);
    CHECK(addresses.runtime == 0);
    CHECK(addresses.code_type == 0);
    CHECK(elf->section(".rodata"));
    CHECK_FALSE(elf->section(".PyRuntime"));
    CHECK_FALSE(elf->soname());
    return;
  }
  FAIL("no mapping of this program");
}

TEST_CASE("the version that stands alone among the constants") {
  CHECK(version_in_constants("x\0003.9.2\0lib/python3.9\0"sv) == 0x03090000u);
  CHECK(version_in_constants("x\0003.10.13+\0python3.10\0"sv) == 0x030a0000u);
  CHECK(version_in_constants("x\0003.8.0rc1\0python3.8\0"sv) == 0x03080000u);
  // OpenSSL's stands there, too.
  CHECK(version_in_constants("x\0003.0.2\0\0003.9.2\0python3.9\0"sv) == 0x03090000u);
  // Of SQLite, without a Python of that version.
  CHECK_FALSE(version_in_constants("x\0003.40.1\0lib/python\0"sv));
  CHECK_FALSE(version_in_constants("x\0003.9.2\0python3.9\0\0003.10.1\0python3.10\0"sv));
  for (const auto text :
       {""sv, "\000"sv, "\0003."sv, "\0003.9"sv, "\0003.9.2"sv, "\0003.9.2\0"sv,
        "3.9.2\0python3.9\0"sv, "\0003.9.\0python3.9\0"sv, "\0003.9.2 (default)\0python3.9\0"sv,
        "\0003..2\0python3.\0"sv, "\0003.9.1000\0python3.9\0"sv, "\0003.9.2rc\0python3.9\0"sv,
        "\0003.7.2\0python3.7\0"sv, "\0003.99999999999.2\0"sv}) {
    CAPTURE(std::string(text));
    CHECK_FALSE(version_in_constants(text));
  }
}

constexpr std::uint64_t kRuntime = 0x1000, kMain = 0x10000, kObjects = 0x20000;

/// An interpreter whose generations begin at `place`, each with one object.
void put_collector(FakeMemory& memory, const python_layout& layout, std::uint32_t place) {
  memory.put(kRuntime + layout.runtime_interpreters, kMain);
  const auto state = kMain + layout.interpreter_gc;
  memory.link(state + layout.gc_permanent, state + layout.gc_permanent);
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto head = state + place + 24 * i;
    const auto object = kObjects + 0x100 * i;
    memory.put(head + 16, std::int32_t{10});
    memory.link(head, object, 1);
    memory.link(object, head, 2);
  }
}

TEST_CASE("the generations are found in either place of a version") {
  for (const std::uint32_t below : {0u, 4u}) {
    auto layout = layout_3_12();
    const auto place = layout.gc_generations - below;
    FakeMemory memory;
    put_collector(memory, layout, place);
    CHECK(find_generations(kRuntime, layout, memory) == Generations::found);
    CHECK(layout.gc_generations == place);
  }
}

TEST_CASE("one list of three may be apart, as while it is collected") {
  auto layout = layout_3_12();
  const auto place = layout.gc_generations - 4;
  FakeMemory memory;
  put_collector(memory, layout, place);
  memory.put(kObjects + 8, std::uint64_t{5});  // _gc_prev holds a count of references meanwhile
  CHECK(find_generations(kRuntime, layout, memory) == Generations::found);
  CHECK(layout.gc_generations == place);
}

TEST_CASE("generations that are nowhere are not known") {
  auto layout = layout_3_12();
  FakeMemory memory;
  put_collector(memory, layout, layout.gc_generations + 8);
  CHECK(find_generations(kRuntime, layout, memory) == Generations::unknown);
  CHECK(layout.gc_generations == 0);
}

TEST_CASE("an interpreter that is not set up is asked again") {
  auto layout = layout_3_12();
  const auto before = layout.gc_generations;
  FakeMemory memory;
  CHECK(find_generations(kRuntime, layout, memory) == Generations::not_set_up);
  memory.put(kRuntime + layout.runtime_interpreters, kMain);
  memory.put(kMain + layout.interpreter_gc + layout.gc_permanent, std::uint64_t{0});
  CHECK(find_generations(kRuntime, layout, memory) == Generations::not_set_up);
  CHECK(layout.gc_generations == before);
}

TEST_CASE("without the lock there are thresholds and no lists") {
  for (const std::uint32_t below : {0u, 4u}) {
    auto layout = layout_3_12();
    layout.flags |= LAYOUT_FREE_THREADED;
    const auto place = layout.gc_generations - below;
    FakeMemory memory;
    memory.put(kRuntime + layout.runtime_interpreters, kMain);
    for (std::uint64_t i = 0; i < 3; ++i) {
      memory.put(kMain + layout.interpreter_gc + place + 24 * i + 16, std::int32_t{2000});
    }
    CHECK(find_generations(kRuntime, layout, memory) == Generations::found);
    CHECK(layout.gc_generations == place);
  }
}

}  // namespace
}  // namespace gcause
