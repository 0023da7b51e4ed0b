// SPDX-License-Identifier: Apache-2.0
#include "target/collector_symbols.h"

#include <algorithm>
#include <array>
#include <initializer_list>

namespace gcause {
namespace {

constexpr std::array<std::string_view, 5> kCloneSuffixes = {"constprop.", "isra.", "part.",
                                                            "lto_priv.", "llvm."};
constexpr std::string_view kFragment = ".cold";

// gc_collect_main as a jump takes 5 bytes, 9 with endbr64, 8 on aarch64.
constexpr std::uint64_t kLongestJump = 16;

// Of one function: compilers make two clones and one fragment of each.
constexpr std::size_t kMaxClones = 16;
constexpr std::size_t kMaxFragments = 64;

/// One list of functions of a table and the fragments of all.
class Collected {
 public:
  explicit Collected(std::initializer_list<std::string_view> names) : names_(names) {}

  void take(const ElfSymbol& symbol) {
    const bool ours = std::any_of(names_.begin(), names_.end(), [&](std::string_view name) {
      return symbol.name.starts_with(name);
    });
    if (!ours) return;
    if (symbol.name.find(kFragment) != std::string_view::npos) {
      if (fragments_.size() < kMaxFragments) fragments_.push_back(symbol);
      return;
    }
    const bool is_clone = std::any_of(names_.begin(), names_.end(), [&](std::string_view name) {
      return is_clone_of(symbol.name, name);
    });
    const bool seen = std::any_of(functions_.begin(), functions_.end(), [&](const ElfSymbol& f) {
      return f.address == symbol.address;  // in .symtab and in .dynsym
    });
    if (is_clone && !seen && functions_.size() < kMaxClones) functions_.push_back(symbol);
  }

  std::vector<CollectorFunction> functions() const {
    std::vector<CollectorFunction> functions;
    for (const auto& symbol : functions_) {
      CollectorFunction function{std::string(symbol.name), symbol.address, symbol.size, {}};
      add_range(function, symbol);
      for (const auto& fragment : fragments_) {
        const auto rest = fragment.name.substr(std::min(symbol.name.size(), fragment.name.size()));
        if (fragment.name.starts_with(symbol.name) && rest.starts_with(kFragment)) {
          add_range(function, fragment);
        }
      }
      functions.push_back(std::move(function));
    }
    return functions;
  }

  bool empty() const { return functions_.empty(); }

 private:
  static void add_range(CollectorFunction& function, const ElfSymbol& symbol) {
    if (symbol.size == 0 || symbol.size > UINT64_MAX - symbol.address) return;
    function.ranges.push_back({symbol.address, symbol.address + symbol.size});
  }

  std::vector<std::string_view> names_;
  std::vector<ElfSymbol> functions_;
  std::vector<ElfSymbol> fragments_;
};

}  // namespace

bool is_clone_of(std::string_view symbol, std::string_view function) {
  if (!symbol.starts_with(function)) return false;
  const auto suffix = symbol.substr(function.size());
  if (suffix.empty()) return true;
  if (suffix.front() != '.' || suffix.find(kFragment) != std::string_view::npos) return false;
  return std::any_of(kCloneSuffixes.begin(), kCloneSuffixes.end(),
                     [&](std::string_view known) { return suffix.substr(1).starts_with(known); });
}

CollectorSymbols collector_symbols(const ElfFile& elf, const PythonBuild& build) {
  CollectorSymbols symbols;
  const bool free_threaded = build.free_threaded.value_or(false);
  // "collect" is too common a word where gc_collect_main exists (3.10 on).
  const bool old = build.hex && *build.hex < 0x030a0000;
  Collected collector{old ? "collect" : "gc_collect_main"}, incremental{"_PyGC_Collect"};
  Collected stop{"stop_the_world"}, start{"start_the_world"};
  Collected stop_shell{"_PyEval_StopTheWorld", "_PyEval_StopTheWorldAll"};
  Collected start_shell{"_PyEval_StartTheWorld", "_PyEval_StartTheWorldAll"};
  elf.for_each_symbol([&](const ElfSymbol& symbol) {
    if (!symbol.function) return true;
    ++symbols.functions;
    collector.take(symbol);
    if (symbol.size > kLongestJump) incremental.take(symbol);
    if (free_threaded) {
      for (auto* world : {&stop, &start, &stop_shell, &start_shell}) world->take(symbol);
    }
    return true;
  });
  symbols.collectors = collector.empty() ? incremental.functions() : collector.functions();
  symbols.world_stops = stop.empty() ? stop_shell.functions() : stop.functions();
  symbols.world_starts = start.empty() ? start_shell.functions() : start.functions();
  return symbols;
}

}  // namespace gcause
