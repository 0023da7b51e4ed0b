// SPDX-License-Identifier: Apache-2.0
#include "target/layout.h"

#include <elf.h>

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>
#include <vector>

namespace gcause {
namespace {

using Words = std::vector<std::uint64_t>;

// _Py_DebugOffsets as words from `version` on: of a 3.13.0 built by pyenv, of Debian's 3.14.10 and
// 3.15.2, all for x86-64.
const Words k313 = {51183856, 0,   283320, 608, 632,  194968, 7272, 7264, 7344, 7400, 7656, 7640,
                    7648,     16,  7752,   0,   7768, 7760,   304,  0,    8,    16,   72,   152,
                    160,      232, 32,     80,  8,    0,      56,   72,   70,   208,  112,  120,
                    128,      136, 68,     52,  96,   104,    200,  16,   8,    416,  24,   88,
                    168,      32,  24,     16,  40,   24,     16,   48,   32,   40,   24,   16,
                    32,       16,  24,     40,  16,   32,     64,   32,   16,   40,   240,  200};
const Words k314 = {51251952, 0,    316616, 784,  808, 225864, 7280, 7272, 7344, 7360, 7408, 7688,
                    7672,     7680, 16,     7784, 0,   7800,   7792, 7992, 0,    832,  0,    8,
                    16,       72,   152,    160,  232, 32,     88,   8,    0,    56,   80,   74,
                    64,       0,    216,    112,  120, 128,    136,  68,   52,   96,   104,  208,
                    0,        16,   8,      416,  24,  88,     168,  40,   32,   16,   40,   24,
                    16,       200,  24,     40,   32,  48,     32,   40,   24,   16,   32,   16,
                    24,       40,   16,     32,   64,  32,     16,   40,   264,  192,  160,  24,
                    72,       67,   0,      8,    24,  304,    8076, 0,    4,    512};
const Words k315 = {
    51315440, 0,    346568, 912,  936,  226240, 7272, 7264, 7336, 7352, 7400, 7592, 7576, 7584,
    16,       7736, 0,      7752, 7744, 7944,   0,    888,  0,    8,    16,   72,   80,   88,
    96,       176,  184,    256,  32,   36,     40,   136,  288,  0,    88,   8,    0,    56,
    80,       74,   64,     0,    216,  112,    120,  128,  136,  68,   52,   96,   104,  208,
    0,        16,   8,      424,  24,   88,     168,  32,   288,  944,  888,  40,   32,   16,
    40,       24,   16,     200,  24,   40,     32,   48,   32,   40,   24,   16,   32,   16,
    24,       40,   16,     32,   64,   32,     16,   40,   56,   176,  112,  120,  1120, 104,
    160,      24,   72,     67,   0,    8,      24,   344,  8028, 0,    4,    512};

// Indices into these words.
constexpr std::size_t kVersion = 0, kFreeThreaded = 1, kInterpreterSize = 5;
constexpr std::size_t kGc313 = 9, kGcSize313 = 70, kGcCollecting313 = 71, kOwner313 = 32;
constexpr std::size_t kAsciiSize313 = 69;
constexpr std::size_t kGcSize314 = 80;

std::vector<std::uint8_t> runtime_of_words(const Words& words) {
  std::vector<std::uint8_t> bytes(8 + words.size() * 8);
  std::memcpy(bytes.data(), "xdebugpy", 8);
  std::memcpy(bytes.data() + 8, words.data(), words.size() * 8);
  return bytes;
}

Words with(Words words, std::size_t index, std::uint64_t value) {
  words.at(index) = value;
  return words;
}

/// Why the layout is not known; empty where it is.
std::string why_not(const std::vector<std::uint8_t>& runtime) {
  std::string why;
  const auto layout = layout_of_debug_offsets(runtime, why);
  REQUIRE(layout.has_value() == why.empty());
  return why;
}

python_layout known(const Words& words) {
  std::string why;
  const auto layout = layout_of_debug_offsets(runtime_of_words(words), why);
  INFO(why);
  REQUIRE(layout);
  return *layout;
}

python_layout of_version(std::uint32_t hex) {
  std::string why;
  const auto layout = layout_of_version(hex, EM_X86_64, why);
  INFO(why);
  REQUIRE(layout);
  return *layout;
}

TEST_CASE("the way to the collector's state, 3.8 to 3.12") {
  CHECK(of_version(0x030812f0).runtime_gc == 344);
  CHECK(of_version(0x030812f0).interpreter_gc == 0);
  CHECK(of_version(0x030912f0).interpreter_gc == 616);
  CHECK(of_version(0x030a0df0).interpreter_gc == 616);
  CHECK(of_version(0x030b07f0).interpreter_gc == 648);
  CHECK(of_version(0x030c01f0).interpreter_gc == 112);
  CHECK(of_version(0x03080000).runtime_thread == 1368);
  CHECK(of_version(0x03090000).runtime_thread == 568);
  CHECK(of_version(0x030b0000).runtime_thread == 576);
  CHECK(of_version(0x030c0000).runtime_thread == 0);
  for (const auto hex : {0x03080000, 0x03090000, 0x030a0000, 0x030b0000, 0x030c0000}) {
    const auto layout = of_version(hex);
    CHECK(layout.version == static_cast<std::uint32_t>(hex));
    CHECK(layout.flags == 0);
    CHECK(layout.thread_interpreter == 16);
    CHECK(layout.gc_enabled == 12);
    CHECK(layout.gc_generations == 24);
    CHECK(layout.gc_permanent == 104);
    CHECK(layout.gc_stats == 128);
    CHECK(layout.unicode_kind_shift == 2);
    CHECK(layout.unicode_ascii_size == (hex == 0x030c0000 ? 40 : 48));
  }
}

TEST_CASE("the way to the running line, 3.8 to 3.12") {
  const auto v38 = of_version(0x030812f0), v310 = of_version(0x030a0df0);
  CHECK(v38.thread_frame == 24);
  CHECK(v38.frame_previous == 24);
  CHECK(v38.frame_code == 32);
  CHECK(v38.frame_instruction == 104);
  CHECK(v38.code_lines == 120);
  CHECK(v38.line_table == LINES_LNOTAB);
  CHECK(v38.instruction_unit == 1);
  CHECK(of_version(0x030902f0).instruction_unit == 1);
  CHECK(v310.frame_instruction == 96);
  CHECK(v310.line_table == LINES_LINETABLE);
  CHECK(v310.instruction_unit == 2);
  const auto v311 = of_version(0x030b02f0), v312 = of_version(0x030c01f0);
  CHECK(v311.thread_has_cframe == 1);
  CHECK(v311.thread_frame == 56);
  CHECK(v311.cframe_frame == 8);
  CHECK(v311.frame_previous == 48);
  CHECK(v311.frame_code == 32);
  CHECK(v311.frame_instruction == 56);
  CHECK(v311.frame_owner == 69);
  CHECK(v311.frame_owner_shim > 127);
  CHECK(v311.code_bytes == 184);
  CHECK(v311.code_lines == 136);
  CHECK(v311.line_table == LINES_LOCATIONS);
  CHECK(v312.cframe_frame == 0);
  CHECK(v312.frame_previous == 8);
  CHECK(v312.frame_code == 0);
  CHECK(v312.frame_owner == 70);
  CHECK(v312.frame_owner_shim == 3);
  CHECK(v312.code_bytes == 192);
}

TEST_CASE("a version without a row has no layout, and one line says why") {
  std::string why;
  for (const auto hex : {0x03070000, 0x030c00a1, 0x030c00b4, 0x030d00f0, 0x04000000, 0}) {
    why.clear();
    CHECK_FALSE(layout_of_version(hex, EM_X86_64, why));
    CHECK_FALSE(why.empty());
    CHECK(why.find('\n') == std::string::npos);
  }
  CHECK(layout_of_version(0x030c00c1, EM_X86_64, why));
}

TEST_CASE("on aarch64 the current thread's place depends on the C library, the rest does not") {
  std::string why;
  auto arm = layout_of_version(0x030912f0, EM_AARCH64, why);
  REQUIRE(arm);
  CHECK(arm->runtime_thread == 0);
  arm->runtime_thread = 568;
  const auto intel = of_version(0x030912f0);
  CHECK(std::memcmp(&*arm, &intel, sizeof intel) == 0);
}

TEST_CASE("_Py_DebugOffsets of 3.13") {
  const auto layout = known(k313);
  CHECK(layout.version == 0x030d00f0);
  CHECK(layout.flags == 0);
  CHECK(layout.runtime_finalizing == 608);
  CHECK(layout.runtime_interpreters == 632);
  CHECK(layout.interpreter_next == 7264);
  CHECK(layout.interpreter_id == 7272);
  CHECK(layout.interpreter_threads == 7344);
  CHECK(layout.interpreter_gc == 7400);
  CHECK(layout.thread_native_id == 160);
  CHECK(layout.thread_frame == 72);
  CHECK(layout.thread_has_cframe == 0);
  CHECK(layout.gc_stats == 128);
  CHECK(layout.frame_instruction == 56);
  CHECK(layout.frame_owner == 70);
  CHECK(layout.frame_owner_shim == 3);
  CHECK(layout.code_bytes == 200);
  CHECK(layout.unicode_compact_size == 56);
}

TEST_CASE("_Py_DebugOffsets of 3.14 and 3.15") {
  const auto v314 = known(k314), v315 = known(k315);
  CHECK(v314.interpreter_gc == 7408);
  CHECK(v314.gc_permanent == 96);
  CHECK(v314.gc_stats == 120);
  CHECK(v314.frame_owner == 74);
  CHECK(v314.code_bytes == 208);
  CHECK(v314.code_tlbc == 0);
  CHECK(v315.flags == LAYOUT_STATS_POINTER);
  CHECK(v315.interpreter_gc == 7400);
  CHECK(v315.thread_native_id == 184);
  CHECK(v315.gc_enabled == 0);
  CHECK(v315.gc_generations == 8);
  CHECK(v315.gc_permanent == 80);
  CHECK(v315.gc_stats == 104);
  // Rings of 11, 3 and 3 records of 64 bytes; collections is the third word of a record.
  CHECK(v315.stats_record == 64);
  CHECK(v315.stats_ring[0] == 16);
  CHECK(v315.stats_index[0] == 11 * 64);
  CHECK(v315.stats_ring[1] == 11 * 64 + 8 + 16);
  CHECK(v315.stats_index[1] == 11 * 64 + 8 + 3 * 64);
  CHECK(v315.stats_ring[2] == v315.stats_ring[1] + 200);
  CHECK(v315.stats_index[2] == v315.stats_index[1] + 200);
}

TEST_CASE("what _Py_DebugOffsets gives stands before what the headers gave") {
  auto moved = with(k313, kGc313, 7416);
  CHECK(known(moved).interpreter_gc == 7416);
  CHECK(known(with(k313, kOwner313, 71)).frame_owner == 71);
}

TEST_CASE("3.14.0 to 3.14.4 collected incrementally: by full version") {
  const auto early = with(with(k314, kVersion, 0x030e04f0), kGcSize314, 240);
  CHECK(known(early).gc_stats == 120);
  CHECK_FALSE(why_not(runtime_of_words(with(k314, kVersion, 0x030e04f0))).empty());
  CHECK_FALSE(why_not(runtime_of_words(with(k314, kGcSize314, 240))).empty());
  CHECK(known(with(k314, kVersion, 0x030e05f0)).version == 0x030e05f0);
}

TEST_CASE("a free-threaded 3.13 has longer object heads and its own collector's state") {
  auto words = with(with(k313, kFreeThreaded, 1), kGcSize313, 248);
  CHECK_FALSE(why_not(runtime_of_words(words)).empty());  // object heads of 16 bytes
  words = with(words, kAsciiSize313, 56);
  const auto layout = known(words);
  CHECK(layout.flags == LAYOUT_FREE_THREADED);
  CHECK(layout.gc_stats == 128);
  CHECK(layout.unicode_compact_size == 72);
}

TEST_CASE("versions that no row covers") {
  for (const auto hex : {0x030d00a1, 0x030d00b4, 0x031000f0, 0x030c01f0, 0}) {
    CHECK_FALSE(why_not(runtime_of_words(with(k313, kVersion, hex))).empty());
  }
  CHECK_FALSE(why_not(runtime_of_words(with(k313, kVersion, 1ull << 40))).empty());
  CHECK_FALSE(why_not(runtime_of_words(with(k313, kFreeThreaded, 2))).empty());
}

TEST_CASE("another collector's state than the row's is not known") {
  CHECK_FALSE(why_not(runtime_of_words(with(k313, kGcSize313, 256))).empty());
  CHECK_FALSE(why_not(runtime_of_words(with(k313, kGcCollecting313, 192))).empty());
  CHECK_FALSE(why_not(runtime_of_words(with(k313, kAsciiSize313, 48))).empty());
}

TEST_CASE("offsets outside of their struct are not known") {
  for (const auto value : {std::uint64_t{194968 - 8}, std::uint64_t{194968 - 240 + 8},
                           ~std::uint64_t{0}, std::uint64_t{1} << 32, std::uint64_t{7401}}) {
    CHECK_FALSE(why_not(runtime_of_words(with(k313, kGc313, value))).empty());
  }
  CHECK(why_not(runtime_of_words(with(k313, kGc313, 194968 - 240))).empty());
  for (const auto size : {std::uint64_t{0}, std::uint64_t{7400}, ~std::uint64_t{0}}) {
    CHECK_FALSE(why_not(runtime_of_words(with(k313, kInterpreterSize, size))).empty());
  }
  CHECK_FALSE(why_not(runtime_of_words(with(k313, kOwner313, 80))).empty());
}

TEST_CASE("a _PyRuntime that ends early, at every byte") {
  for (const auto& words : {k313, k314, k315}) {
    const auto whole = runtime_of_words(words);
    std::size_t not_known = 0;
    for (std::size_t size = 0; size < whole.size(); ++size) {
      if (!why_not({whole.begin(), whole.begin() + static_cast<long>(size)}).empty()) ++not_known;
    }
    CHECK(not_known >= 560);  // up to the end of what is read
    auto other = whole;
    other[0] = 'X';
    CHECK_FALSE(why_not(other).empty());
  }
}

}  // namespace
}  // namespace gcause
