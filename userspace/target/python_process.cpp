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

}  // namespace gcause
