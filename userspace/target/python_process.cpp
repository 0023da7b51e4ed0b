// SPDX-License-Identifier: Apache-2.0
#include "target/python_process.h"

#include <array>

namespace gcause {
namespace {

constexpr std::uint32_t kFirstWithDebugOffsets = 0x030d0000;

/// Whether _PyRuntime can be at this address.
bool is_runtime(std::uint64_t address, const python_layout& layout, Memory& memory) {
  if (layout.version >= kFirstWithDebugOffsets) {
    std::array<std::uint8_t, 24> head;
    if (!memory.read(address, head)) return false;
    const auto found = debug_offsets_head(head);
    return found && found->hex == layout.version;
  }
  const auto interpreter = memory.value<std::uint64_t>(address + layout.runtime_interpreters);
  if (!interpreter) return false;
  if (*interpreter == 0) return true;  // not initialized yet
  const auto threads = memory.value<std::uint64_t>(*interpreter + layout.interpreter_threads);
  if (!threads) return false;
  if (*threads == 0) return true;
  return memory.value<std::uint64_t>(*threads + layout.thread_interpreter) == *interpreter;
}

constexpr std::uint64_t kLinkFlags = 3;  // of _gc_prev, and while a collection is on of _gc_next
constexpr std::uint32_t kGenerationBytes = 24;
constexpr int kLooks = 5;  // one may meet a change

/// Whether a list of the collector begins and ends at `head`: its neighbours point back.
bool is_list(std::uint64_t head, Memory& memory) {
  const auto next = memory.value<std::uint64_t>(head);
  const auto previous = memory.value<std::uint64_t>(head + 8);
  if (!next || !previous) return false;
  const auto back = memory.value<std::uint64_t>((*next & ~kLinkFlags) + 8);
  const auto forth = memory.value<std::uint64_t>(*previous & ~kLinkFlags);
  return back && (*back & ~kLinkFlags) == head && forth && (*forth & ~kLinkFlags) == head;
}

/// Whether three generations begin at this address. A collection that is on may have one of the
/// lists apart. Free-threaded builds have no lists, and zeros in their place.
bool are_generations(std::uint64_t address, bool free_threaded, Memory& memory) {
  int lists = 0, empty = 0, thresholds = 0;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const auto head = address + i * kGenerationBytes;
    lists += is_list(head, memory);
    empty += memory.value<std::uint64_t>(head) == std::uint64_t{0} &&
             memory.value<std::uint64_t>(head + 8) == std::uint64_t{0};
    thresholds += memory.value<std::int32_t>(head + 16).value_or(0) > 0;
  }
  return free_threaded ? empty == 3 && thresholds >= 2 : lists >= 2;
}

/// The state of the main interpreter's collector; 0 while there is none.
std::uint64_t main_collector(std::uint64_t runtime, const python_layout& layout, Memory& memory) {
  if (layout.runtime_gc != 0) return runtime + layout.runtime_gc;
  const auto interpreter = memory.value<std::uint64_t>(runtime + layout.runtime_interpreters);
  return interpreter.value_or(0) != 0 ? *interpreter + layout.interpreter_gc : 0;
}

}  // namespace

std::optional<std::uint64_t> load_bias(const ElfFile& elf, const Mapping& mapping) {
  const auto address = elf.executable_address(mapping.offset, mapping.end - mapping.begin);
  if (!address) return std::nullopt;
  return mapping.begin - *address;
}

PythonAddresses python_addresses(const ElfFile& elf, const Mapping& mapping,
                                 const python_layout& layout, Memory& memory) {
  PythonAddresses found;
  const auto bias = load_bias(elf, mapping);
  if (!bias) return found;
  const auto runtime = runtime_symbol(elf);
  if (runtime && is_runtime(*bias + *runtime, layout, memory)) found.runtime = *bias + *runtime;
  const auto code_type = elf.find("PyCode_Type");
  const auto type_type = elf.find("PyType_Type");
  if (code_type && type_type &&
      memory.value<std::uint64_t>(*bias + code_type->address + layout.object_type) ==
          *bias + type_type->address) {
    found.code_type = *bias + code_type->address;
  }
  return found;
}

Generations find_generations(std::uint64_t runtime, python_layout& layout, Memory& memory) {
  const auto state = main_collector(runtime, layout, memory);
  const bool free_threaded = layout.flags & LAYOUT_FREE_THREADED;
  // The permanent generation is set up together with the others, and is in the same place always.
  const bool set_up =
      state != 0 &&
      (free_threaded || memory.value<std::uint64_t>(state + layout.gc_permanent).value_or(0) != 0);
  if (!set_up) return Generations::not_set_up;
  for (int look = 0; look < kLooks; ++look) {
    for (const auto place : {layout.gc_generations, layout.gc_generations - 4}) {
      if (!are_generations(state + place, free_threaded, memory)) continue;
      layout.gc_generations = place;
      return Generations::found;
    }
  }
  layout.gc_generations = 0;
  return Generations::unknown;
}

}  // namespace gcause
