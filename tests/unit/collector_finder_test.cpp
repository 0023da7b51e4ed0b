// SPDX-License-Identifier: Apache-2.0
#include "target/collector_finder.h"

#include <elf.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <filesystem>
#include <fstream>
#include <string>

#include "elf_builder.h"
#include "target/collector_cache.h"
#include "target/collector_scan.h"
#include "target/debug_symbols.h"

namespace gcause {
namespace {

using testing::Alike;
using testing::Bytes;
using testing::Cold;
using testing::ElfBuilder;

ElfFile opened(const Bytes& bytes) {
  auto elf = ElfFile::from_memory(bytes, "test");
  REQUIRE(elf);
  return *std::move(elf);
}

PythonBuild version(std::uint32_t hex, bool free_threaded = false) {
  return {hex, std::nullopt, free_threaded};
}

CollectorSearch search(const ElfFile& elf, std::uint32_t hex = 0x030d0500) {
  return {elf, version(hex), "/usr/bin/python3", "/nonexistent"};
}

const CollectorWay& way(const FoundCollector& found, CollectorMethod method) {
  for (const auto& tried : found.ways) {
    if (tried.method == method) return tried;
  }
  FAIL("this way was not tried");
  return found.ways.front();
}

/// A folder that goes away with its object.
class Folder {
 public:
  Folder() {
    char name[] = "/tmp/gcause-test-XXXXXX";
    REQUIRE(::mkdtemp(name));
    path_ = name;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  Folder(const Folder&) = delete;
  Folder& operator=(const Folder&) = delete;

  const std::filesystem::path& path() const { return path_; }
  void write(const std::string& name, const Bytes& bytes) const {
    std::filesystem::create_directories((path_ / name).parent_path());
    std::ofstream(path_ / name, std::ios::binary)
        .write(reinterpret_cast<const char*>(bytes.data()),
               static_cast<std::streamsize>(bytes.size()));
  }

 private:
  std::filesystem::path path_;
};

const std::string kDebugPath =
    "usr/lib/debug/.build-id/ab/ababababababababababababababababababab.debug";

Bytes debug_file(unsigned char id = 0xab) {
  ElfBuilder builder(EM_X86_64);
  builder.set_build_id(Bytes(20, id));
  builder.add_symbol("gc_collect_main.lto_priv.0", Alike::kCollector, Alike::kCollectorSize, false);
  builder.add_symbol("gc_collect_main.lto_priv.0.cold", Alike::kCold, Alike::kColdSize, false);
  return builder.build();
}

TEST_CASE("a clone carries the suffixes that compilers append") {
  for (const auto* name :
       {"gc_collect_main", "gc_collect_main.constprop.0", "gc_collect_main.lto_priv.0",
        "gc_collect_main.isra.0", "gc_collect_main.part.0", "gc_collect_main.isra.0.constprop.1",
        "gc_collect_main.llvm.4512191688676760536"}) {
    CHECK(is_clone_of(name, "gc_collect_main"));
  }
  for (const auto* name :
       {"gc_collect_main.cold", "gc_collect_main.lto_priv.0.cold",
        "gc_collect_main.constprop.0.cold.1", "gc_collect_mainly", "gc_collect_main_impl",
        "gc_collect_main.", "gc_collect_main.unknown.0", "gc_collect", "xgc_collect_main", ""}) {
    CHECK_FALSE(is_clone_of(name, "gc_collect_main"));
  }
}

TEST_CASE("the symbol table gives every clone with its fragments") {
  ElfBuilder builder(EM_X86_64);
  builder.add_symbol("gc_collect_main", 0x1100, 0x60, false);
  builder.add_symbol("gc_collect_main.constprop.0", 0x1200, 0x50, false);
  builder.add_symbol("gc_collect_main.cold", 0x1800, 0x40, false);
  builder.add_symbol("gc_collect_main.constprop.0.cold.0", 0x1900, 0x30, false);
  builder.add_symbol("collect", 0x1300, 0x20, false);
  builder.add_symbol("_PyGC_Collect", 0x1400, 5, false);
  const auto elf = opened(builder.build());
  const auto found = find_collector_functions(search(elf));
  REQUIRE(found.method == CollectorMethod::symbol);
  REQUIRE(found.functions.size() == 2);
  CHECK(found.functions[0].address == 0x1100);
  CHECK(found.functions[0].ranges == std::vector<CodeRange>{{0x1100, 0x1160}, {0x1800, 0x1840}});
  CHECK(found.functions[1].ranges == std::vector<CodeRange>{{0x1200, 0x1250}, {0x1900, 0x1930}});
  CHECK(found.ways.size() == 1);
}

TEST_CASE("which function is the collector depends on the version") {
  ElfBuilder builder(EM_X86_64);
  const auto [hex, name, size, is_it] =
      GENERATE(table<std::uint32_t, std::string, std::uint64_t, bool>({
          {0x03080000, "collect.constprop.0", 0x100, true},
          {0x03090000, "collect", 0x100, true},
          {0x030a0000, "collect", 0x100, false},
          {0x030a0000, "gc_collect_main", 0x100, true},
          {0x03090000, "collect_with_callback", 0x100, false},
          {0x030e0000, "_PyGC_Collect", 0x100, true},
          {0x030e0500, "_PyGC_Collect", 9, false},
      }));
  builder.add_symbol(name, 0x1100, size, false);
  const auto elf = opened(builder.build());
  const auto symbols = collector_symbols(elf, version(hex));
  CHECK(symbols.collectors.size() == (is_it ? 1 : 0));
}

TEST_CASE("a symbol that is no code of the file is not taken") {
  ElfBuilder builder(EM_X86_64);
  builder.add_symbol("gc_collect_main", GENERATE(0x410, 0x3000, 0x123456789), 0x60, false);
  const auto elf = opened(builder.build());
  CHECK_FALSE(find_collector_functions(search(elf)).method);
}

TEST_CASE("the text that the collector prints leads to it") {
  const auto machine = GENERATE(EM_X86_64, EM_AARCH64);
  const auto cold = GENERATE(Cold::none, Cold::by_unwinding, Cold::by_branches);
  ElfBuilder builder(machine);
  const auto elf = opened(testing::cpython_alike(builder, cold));
  const auto scan = scan_for_collector(elf);
  INFO(scan.result);
  REQUIRE(scan.functions.size() == 1);
  std::vector<CodeRange> ranges{{Alike::kCollector, Alike::kCollector + Alike::kCollectorSize}};
  if (cold != Cold::none) ranges.push_back({Alike::kCold, Alike::kCold + Alike::kColdSize});
  CHECK(scan.functions[0].address == Alike::kCollector);
  CHECK(scan.functions[0].ranges == ranges);
  CHECK(scan.result == "collector at 0x1100, called by PyGC_Collect");
}

TEST_CASE("code that is not position independent names the text by its address") {
  ElfBuilder builder(EM_X86_64, ET_EXEC);
  testing::cpython_alike(builder, Cold::none);
  testing::Assembler clone(EM_X86_64, 0x2000);
  builder.add_code(0x2000, clone.take_absolute_address(Alike::kBanner).ret().bytes());
  builder.add_code(0x2100, testing::Assembler(EM_X86_64, 0x2100).call(0x2000).ret().bytes());
  const auto scan = scan_for_collector(opened(builder.build()));
  REQUIRE(scan.functions.size() == 2);
  CHECK(scan.functions[1].address == 0x2000);
}

TEST_CASE("without a second sign the search does not guess") {
  using namespace std::string_view_literals;
  ElfBuilder builder(EM_X86_64);
  builder.add_constant(Alike::kBanner, "gc: collecting generation %d...\n\0"sv);
  testing::Assembler code(EM_X86_64, 0x1100);
  builder.add_code(0x1100, code.take_address(Alike::kBanner).ret().bytes());
  const auto scan = scan_for_collector(opened(builder.build()));
  CHECK(scan.functions.empty());
  CHECK(scan.result.find("0x1100") != std::string::npos);
}

TEST_CASE("a fragment whose function is not found is not taken for one") {
  using namespace std::string_view_literals;
  ElfBuilder builder(EM_X86_64);
  builder.add_constant(Alike::kBanner, "gc: collecting generation %d...\n\0"sv);
  builder.add_constant(Alike::kDone, "gc: done, \0"sv);
  testing::Assembler code(EM_X86_64, 0x1100);
  code.take_address(Alike::kBanner).take_address(Alike::kDone).ret();
  builder.add_code(0x1100, code.bytes(), true);
  const auto scan = scan_for_collector(opened(builder.build()));
  CHECK(scan.functions.empty());
}

TEST_CASE("the search says why it found nothing") {
  ElfBuilder foreign(EM_PPC64), empty(EM_X86_64);
  CHECK(scan_for_collector(opened(foreign.build())).result ==
        "its code is neither x86-64 nor aarch64");
  CHECK(scan_for_collector(opened(empty.build())).result ==
        "no code refers to the text that the collector prints");
}

TEST_CASE("the ways are tried in their order, and all of them for the doctor") {
  ElfBuilder builder(EM_X86_64);
  testing::cpython_alike(builder);
  SECTION("without probes the code is searched") {
    const auto elf = opened(builder.build());
    const auto found = find_collector_functions(search(elf));
    CHECK(found.method == CollectorMethod::scan);
    CHECK(found.ways.size() == 4);
  }
  builder.add_usdt("python", "gc__start");
  SECTION("half a pair of probes is none") {
    const auto elf = opened(builder.build());
    CHECK(find_collector_functions(search(elf)).method == CollectorMethod::scan);
  }
  builder.add_usdt("python", "gc__done");
  SECTION("probes come before the search") {
    const auto elf = opened(builder.build());
    const auto found = find_collector_functions(search(elf));
    CHECK(found.method == CollectorMethod::usdt);
    CHECK(found.functions.empty());
    CHECK(found.ways.size() == 3);
  }
  SECTION("the doctor sees every way") {
    const auto elf = opened(builder.build());
    auto all = search(elf);
    all.all_ways = true;
    const auto found = find_collector_functions(all);
    CHECK(found.method == CollectorMethod::usdt);
    CHECK(way(found, CollectorMethod::scan).found);
    CHECK_FALSE(way(found, CollectorMethod::symbol).found);
    CHECK_FALSE(way(found, CollectorMethod::debuginfo).result.empty());
  }
  builder.add_symbol("gc_collect_main", Alike::kCollector, Alike::kCollectorSize, false);
  SECTION("symbols come before probes") {
    const auto elf = opened(builder.build());
    CHECK(find_collector_functions(search(elf)).method == CollectorMethod::symbol);
  }
  SECTION("unless probes are exact where a bracket is not") {
    const auto elf = opened(builder.build());
    auto exact = search(elf);
    exact.prefer_usdt = true;
    const auto found = find_collector_functions(exact);
    CHECK(found.method == CollectorMethod::usdt);
    CHECK(found.functions.empty());
    CHECK(way(found, CollectorMethod::symbol).found);
  }
}

TEST_CASE("MiniDebugInfo is unpacked within bounds") {
  ElfBuilder symbols(EM_X86_64), builder(EM_X86_64);
  symbols.add_symbol("gc_collect_main", Alike::kCollector, Alike::kCollectorSize, false);
  SECTION("a symbol table") {
    builder.add_section(".gnu_debugdata", testing::packed(symbols.build()));
    const auto elf = opened(builder.build());
    const auto found = find_collector_functions(search(elf));
    REQUIRE(found.method == CollectorMethod::debuginfo);
    CHECK(found.functions.at(0).address == Alike::kCollector);
    CHECK(found.ways.back().result == "gc_collect_main in MiniDebugInfo");
  }
  SECTION("a bomb") {
    builder.add_section(".gnu_debugdata", testing::packed(Bytes((64 << 20) + 1)));
    const auto mini = mini_debug_info(opened(builder.build()));
    REQUIRE_FALSE(mini);
    CHECK(mini.error().what == "MiniDebugInfo that cannot be unpacked");
  }
  SECTION("cut") {
    auto bytes = testing::packed(symbols.build());
    bytes.resize(bytes.size() / 2);
    builder.add_section(".gnu_debugdata", bytes);
    CHECK_FALSE(mini_debug_info(opened(builder.build())));
  }
  SECTION("none") { CHECK_FALSE(mini_debug_info(opened(builder.build()))); }
}

TEST_CASE("a debug file is taken from the target's root, by build-id") {
  const Folder root;
  ElfBuilder builder(EM_X86_64);
  const auto elf = opened(testing::cpython_alike(builder));
  auto request = search(elf);
  request.root = root.path();
  SECTION("the right one") {
    root.write(kDebugPath, debug_file());
    const auto found = find_collector_functions(request);
    REQUIRE(found.method == CollectorMethod::debuginfo);
    CHECK(found.functions.at(0).ranges.size() == 2);
    CHECK(found.ways.back().result == "gc_collect_main.lto_priv.0 in /" + kDebugPath);
  }
  SECTION("one of another build") {
    root.write(kDebugPath, debug_file(0xcd));
    CHECK(find_collector_functions(request).method == CollectorMethod::scan);
  }
  SECTION("a link that leads within the root") {
    root.write("elsewhere", debug_file());
    std::filesystem::create_directories((root.path() / kDebugPath).parent_path());
    std::filesystem::create_symlink("/elsewhere", root.path() / kDebugPath);
    CHECK(find_collector_functions(request).method == CollectorMethod::debuginfo);
  }
  SECTION("a link out of the root, and a pipe, which must not be waited for") {
    const Folder outside;
    outside.write("file", debug_file());
    std::filesystem::create_directories((root.path() / kDebugPath).parent_path());
    if (GENERATE(true, false)) {
      std::filesystem::create_symlink(outside.path() / "file", root.path() / kDebugPath);
    } else {
      REQUIRE(::mkfifo((root.path() / kDebugPath).c_str(), 0600) == 0);
    }
    CHECK(find_collector_functions(request).method == CollectorMethod::scan);
  }
}

TEST_CASE("the functions that stop the world are looked for in free-threaded builds only") {
  ElfBuilder builder(EM_X86_64);
  builder.add_symbol("gc_collect_main", 0x1100, 0x60, false);
  builder.add_symbol("_PyEval_StopTheWorld", 0x1200, 0x10, false);
  builder.add_symbol("_PyEval_StartTheWorld", 0x1300, 0x10, false);
  SECTION("the static functions") {
    builder.add_symbol("stop_the_world", 0x1400, 0x60, false);
    builder.add_symbol("stop_the_world.constprop.0", 0x1500, 0x60, false);
    builder.add_symbol("start_the_world", 0x1600, 0x60, false);
    const auto elf = opened(builder.build());
    auto request = search(elf);
    CHECK(find_collector_functions(request).world_stops.empty());
    request.build.free_threaded = true;
    const auto found = find_collector_functions(request);
    CHECK(found.world_stops.size() == 2);
    REQUIRE(found.world_starts.size() == 1);
    CHECK(found.world_starts[0].address == 0x1600);
  }
  SECTION("without them what the exported ones hand on to") {
    using testing::Assembler;
    builder.add_code(0x1200, Assembler(EM_X86_64, 0x1200).nops(3).jump(0x1400).bytes());
    builder.add_code(0x1300, Assembler(EM_X86_64, 0x1300).nops(3).ret().bytes());
    builder.add_code(0x1400, Assembler(EM_X86_64, 0x1400).nops(3).ret().bytes());
    const auto elf = opened(builder.build());
    auto request = search(elf);
    request.build.free_threaded = true;
    const auto found = find_collector_functions(request);
    REQUIRE(found.world_stops.size() == 1);
    REQUIRE(found.world_starts.size() == 1);
    CHECK(found.world_stops[0].address == 0x1400);
    CHECK(found.world_starts[0].address == 0x1300);
  }
}

TEST_CASE("a remembered result holds for the same code only") {
  ElfBuilder builder(EM_X86_64);
  const auto good = testing::cpython_alike(builder);
  const auto first = opened(good);
  CollectorCache cache;
  REQUIRE(cache.find(search(first)).method == CollectorMethod::scan);
  REQUIRE(cache.hits() == 0);
  SECTION("the same file") {
    const auto again = opened(good);
    CHECK(cache.find(search(again)).functions.at(0).address == Alike::kCollector);
    CHECK(cache.hits() == 1);
  }
  SECTION("another code under the same build-id") {
    auto other = good;
    other.at(Alike::kColdSize / 2 + GENERATE(Alike::kCollector, Alike::kCold)) ^= 1;
    (void)cache.find(search(opened(other)));
    CHECK(cache.hits() == 0);
  }
  SECTION("another size under the same build-id") {
    auto other = good;
    other.resize(other.size() + 8);
    (void)cache.find(search(opened(other)));
    CHECK(cache.hits() == 0);
  }
  SECTION("other wishes") {
    auto request = search(first);
    request.all_ways = true;
    CHECK(cache.find(request).ways.size() == 4);
    CHECK(cache.hits() == 0);
  }
  SECTION("files without a build-id are never remembered") {
    ElfBuilder nameless(EM_X86_64);
    nameless.set_build_id({});
    const auto elf = opened(testing::cpython_alike(nameless));
    CollectorCache empty;
    REQUIRE(empty.find(search(elf)).method == CollectorMethod::scan);
    REQUIRE(empty.find(search(elf)).method == CollectorMethod::scan);
    CHECK(empty.hits() == 0);
  }
}

}  // namespace
}  // namespace gcause
