// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

namespace gcause {

/// How much of a function's start is looked at.
inline constexpr std::size_t kPrologueBytes = 96;

/// A place in a function at which a uprobe sees the function's arguments.
struct ProbePoint {
  std::uint64_t address;    ///< virtual address of the probed instruction
  std::string instruction;  ///< as text, for the doctor
  bool emulated;            ///< the kernel emulates it; otherwise each hit is single-stepped
};

/// The cheapest point for an entry and a return probe at once: the first instruction of the
/// straight-line prologue that the kernel emulates (nop, push, jump: arch/x86/kernel/uprobes.c),
/// while the argument registers and the stack pointer are still as the caller left them, as the
/// return probe takes the return address from the stack. Otherwise the function's first
/// instruction. `code` holds the function's first bytes; only x86-64 code is looked into.
ProbePoint choose_probe_point(unsigned elf_machine, std::uint64_t address,
                              std::span<const std::uint8_t> code);

/// The target of the first direct call in a function, which is reached before any branch and with
/// the first two argument registers untouched; nothing if there is none in `code`.
std::optional<std::uint64_t> first_call_target(unsigned elf_machine, std::uint64_t address,
                                               std::span<const std::uint8_t> code);

}  // namespace gcause
