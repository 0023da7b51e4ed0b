// SPDX-License-Identifier: Apache-2.0
#include "target/function_table.h"

#include <elf.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>

#include "elf_builder.h"
#include "target/code_scan.h"

namespace gcause {
namespace {

using testing::Alike;
using testing::Assembler;
using testing::Bytes;
using testing::ElfBuilder;

/// A file, its image and its table, which refer to each other.
struct Parsed {
  explicit Parsed(const Bytes& bytes)
      : elf(*ElfFile::from_memory(bytes, "test")),
        image(*CodeImage::make(elf, why)),
        table(FunctionTable::read(elf, image, why)) {}

  std::string why;
  ElfFile elf;
  CodeImage image;
  std::optional<FunctionTable> table;
};

TEST_CASE("the table of functions gives each stretch of code") {
  ElfBuilder builder(GENERATE(EM_X86_64, EM_AARCH64));
  const Parsed parsed(testing::cpython_alike(builder));
  REQUIRE(parsed.table);
  const auto& table = *parsed.table;
  CHECK(table.size() == 4);
  const CodeRange collector{Alike::kCollector, Alike::kCollector + Alike::kCollectorSize};
  CHECK(table.containing(collector.begin) == collector);
  CHECK(table.containing(collector.end - 1) == collector);
  CHECK_FALSE(table.containing(collector.end));
  CHECK_FALSE(table.containing(0));
  CHECK_FALSE(table.containing(UINT64_MAX));
  CHECK(table.between_begins(collector.end) == CodeRange{Alike::kCollector, Alike::kOther});
  CHECK(table.begins_in_mid_function(Alike::kCold));
  CHECK_FALSE(table.begins_in_mid_function(Alike::kCollector));
  CHECK_FALSE(table.begins_in_mid_function(Alike::kCold + 4));
}

TEST_CASE("a table that is not sound is refused") {
  ElfBuilder builder(EM_X86_64);
  auto bytes = testing::cpython_alike(builder);
  const auto table = ElfBuilder::kCodeEnd;
  SECTION("version") { bytes.at(table) = 2; }
  SECTION("how its entries are written") { bytes.at(table + 3) = 0xff; }
  SECTION("more entries than it has room for") { bytes.at(table + 10) = 1; }
  SECTION("not in order") { bytes.at(table + 12 + 8 + 2) = 0x7f; }
  const Parsed parsed(bytes);
  CHECK_FALSE(parsed.table);
  CHECK(parsed.why == "its table of functions (.eh_frame_hdr) is not sound");
}

TEST_CASE("an entry that leads nowhere gives no stretch") {
  ElfBuilder builder(EM_X86_64);
  auto bytes = testing::cpython_alike(builder);
  const auto second = ElfBuilder::kCodeEnd + 12 + 8;
  SECTION("out of the file") { bytes.at(second + 7) = 0x7f; }
  SECTION("into the description of another") { bytes.at(second + 4) += 24; }
  SECTION("into the code") { bytes.at(second + 5) = 0xf0; }
  const Parsed parsed(bytes);
  REQUIRE(parsed.table);
  CHECK_FALSE(parsed.table->containing(Alike::kCollector));
  CHECK(parsed.table->containing(Alike::kManual));
}

TEST_CASE("calls and jumps between stretches are seen, others are left out") {
  const auto machine = GENERATE(EM_X86_64, EM_AARCH64);
  ElfBuilder builder(machine);
  builder.add_code(0x1000, Assembler(machine, 0x1000).jump_if(0x1000).jump(0x1100).ret().bytes());
  builder.add_code(0x1100, Assembler(machine, 0x1100).call(0x1000).jump_if(0x1004).ret().bytes());
  builder.add_code(0x2ff8, Assembler(machine, 0x2ff8).nops(1).call(0x1100).bytes());
  const Parsed parsed(builder.build());
  REQUIRE(parsed.table);
  std::string why;
  const auto flow = control_flow_of(parsed.image, *parsed.table, why);
  REQUIRE(flow);
  CHECK(flow->called == std::vector<std::uint64_t>{0x1000, 0x1100});
  REQUIRE(flow->jumps.size() == 2);
  CHECK(flow->jumps[0].target == 0x1100);
  CHECK(flow->jumps[1].target == 0x1004);
  CHECK(branches_of(parsed.image, {0x1000, 0x1010}).size() == 2);
}

TEST_CASE("a call at the very end of the code is seen") {
  ElfBuilder builder(EM_X86_64);
  builder.add_code(0x2ffb, Assembler(EM_X86_64, 0x2ffb).call(0x1000).bytes());
  const Parsed parsed(builder.build());
  const auto branches = branches_of(parsed.image, {0x2ffb, 0x3000});
  CHECK(branches.empty());  // shorter than the longest branch: not looked into
  std::string why;
  const auto flow = control_flow_of(parsed.image, *parsed.table, why);
  REQUIRE(flow);
  CHECK(flow->called == std::vector<std::uint64_t>{0x1000});
}

}  // namespace
}  // namespace gcause
