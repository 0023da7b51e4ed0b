// SPDX-License-Identifier: Apache-2.0
//
// An ELF file is searched in every way, and what is found must lie in its code. The first two bytes
// say which file and how: the rest as it is, or a good file broken with the rest, as random bytes
// are no ELF file: a CPython in small or, seldom, as it is large, this program itself, which has
// the text of the collector and code that refers to it.

#include <elf.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <span>
#include <string>
#include <vector>

#include "elf_builder.h"
#include "target/code_image.h"
#include "target/collector_cache.h"
#include "target/collector_finder.h"
#include "target/elf_file.h"
#include "target/python.h"

namespace {

using gcause::testing::Bytes;
using gcause::testing::Cold;

#ifdef GCAUSE_SMOKE
constexpr bool kTakesItself = true;
#else
constexpr bool kTakesItself = false;  // a fuzzer is better off with a thousand small files
#endif

void require(bool condition) {
  if (!condition) std::abort();
}

/// Breaks a good file: cuts it, and overwrites bytes, of which most hit what a parser looks at.
Bytes broken(Bytes file, std::uint8_t rule, std::span<const std::uint8_t> with) {
  if (with.size() >= 3 && (rule & 1) != 0) {
    file.resize(file.size() * with[0] / 256 + 1);
    with = with.subspan(1);
  }
  for (; with.size() >= 3; with = with.subspan(3)) {
    const std::size_t where = with[0] | std::size_t{with[1]} << 8;
    file[where % file.size()] = (rule & 2) != 0 ? with[2] : file[where % file.size()] ^ with[2];
  }
  return file;
}

Bytes this_program() {
  std::ifstream file("/proc/self/exe", std::ios::binary);
  return Bytes(std::istreambuf_iterator<char>(file), {});
}

Bytes packed_symbols() {
  gcause::testing::ElfBuilder symbols(EM_X86_64);
  symbols.add_symbol("gc_collect_main", gcause::testing::Alike::kCollector, 0x60, false);
  return gcause::testing::packed(symbols.build());
}

Bytes small_cpython(std::uint8_t rule) {
  gcause::testing::ElfBuilder builder((rule & 4) != 0 ? EM_AARCH64 : EM_X86_64,
                                      (rule & 8) != 0 ? ET_EXEC : ET_DYN);
  if ((rule & 0x10) != 0) {
    // Made once: to pack costs more than all that follows.
    static const Bytes symbols = packed_symbols();
    builder.add_section(".gnu_debugdata", symbols);
  }
  if ((rule & 0x20) != 0) builder.add_usdt("python", "gc__start");
  return gcause::testing::cpython_alike(builder, static_cast<Cold>(rule / 0x40 % 3));
}

void check(const gcause::FoundCollector& found, const gcause::ElfFile& elf) {
  std::string why;
  const auto image = gcause::CodeImage::make(elf, why);
  require(image || !found.method);
  require(!found.ways.empty());
  for (const auto* list : {&found.functions, &found.world_stops, &found.world_starts}) {
    require(list->size() <= 64);
    for (const auto& function : *list) {
      require(image->is_code(function.address));
      for (const auto& range : function.ranges) {
        require(range.begin < range.end && image->is_code(range.begin));
      }
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::uint8_t rule = data[0];
  const std::span<const std::uint8_t> rest(data + 2, size - 2);
  const auto bytes = kTakesItself && rule == 0 ? broken(this_program(), rule, rest)
                     : rule < 16               ? Bytes(rest.begin(), rest.end())
                                               : broken(small_cpython(rule), rule, rest);
  auto elf = gcause::ElfFile::from_memory(bytes, "input");
  if (!elf) return 0;
  gcause::PythonBuild build;
  build.hex = (data[1] & 1) != 0 ? 0x030d0500 : 0x03080000;
  build.free_threaded = (data[1] & 2) != 0;
  const gcause::CollectorSearch search{
      *elf, build, "/input", "/nonexistent", (data[1] & 4) != 0, (data[1] & 8) != 0};
  gcause::CollectorCache cache;
  check(cache.find(search), *elf);
  check(cache.find(search), *elf);
  (void)gcause::runtime_of(*elf, "input");
  return 0;
}
