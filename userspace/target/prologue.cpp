// SPDX-License-Identifier: Apache-2.0
#include "target/prologue.h"

#include <capstone/capstone.h>
#include <elf.h>

#include <algorithm>
#include <array>
#include <memory>

namespace gcause {
namespace {

/// A capstone session for x86-64 with details, and the instructions of one function's start.
class Disassembly {
 public:
  Disassembly(std::uint64_t address, std::span<const std::uint8_t> code) {
    if (::cs_open(CS_ARCH_X86, CS_MODE_64, &handle_) != CS_ERR_OK) return;
    ::cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON);
    count_ = ::cs_disasm(handle_, code.data(), code.size(), address, 0, &instructions_);
  }
  ~Disassembly() {
    if (instructions_) ::cs_free(instructions_, count_);
    if (handle_) ::cs_close(&handle_);
  }
  Disassembly(const Disassembly&) = delete;
  Disassembly& operator=(const Disassembly&) = delete;

  std::span<const cs_insn> instructions() const { return {instructions_, count_}; }
  csh handle() const { return handle_; }

 private:
  csh handle_ = 0;
  cs_insn* instructions_ = nullptr;
  std::size_t count_ = 0;
};

bool in_group(const Disassembly& code, const cs_insn& instruction, unsigned group) {
  return ::cs_insn_group(code.handle(), &instruction, group);
}

bool is_branch(const Disassembly& code, const cs_insn& instruction) {
  return in_group(code, instruction, CS_GRP_JUMP) || in_group(code, instruction, CS_GRP_CALL) ||
         in_group(code, instruction, CS_GRP_RET) || in_group(code, instruction, CS_GRP_INT);
}

/// What the kernel emulates (push_setup_xol_ops and branch_setup_xol_ops): nop, push of a whole
/// register in its short form, and jumps to a fixed address. Calls are emulated too, but behind one
/// the arguments are gone, so a prologue has none to offer.
bool is_emulated(const cs_insn& instruction) {
  const auto* bytes = instruction.bytes;
  const auto is_push = [](std::uint8_t byte) { return byte >= 0x50 && byte <= 0x57; };
  if (bytes[0] == 0x90 || is_push(bytes[0]) || (bytes[0] == 0x41 && is_push(bytes[1]))) return true;
  // The 5-byte nop is the cheapest of all: recent kernels turn its breakpoint into a call.
  const bool nop5 = instruction.size == 5 && bytes[0] == 0x0f && bytes[1] == 0x1f;
  const bool short_jump = (bytes[0] >= 0x70 && bytes[0] <= 0x7f) || bytes[0] == 0xeb;
  const bool near_jump =
      (bytes[0] == 0x0f && bytes[1] >= 0x80 && bytes[1] <= 0x8f) || bytes[0] == 0xe9;
  return nop5 || short_jump || near_jump;
}

bool writes_any(const Disassembly& code, const cs_insn& instruction,
                std::span<const x86_reg> registers) {
  cs_regs read, written;
  std::uint8_t reads = 0, writes = 0;
  if (::cs_regs_access(code.handle(), &instruction, read, &reads, written, &writes)) return true;
  for (std::uint8_t i = 0; i < writes; ++i) {
    if (std::find(registers.begin(), registers.end(), written[i]) != registers.end()) return true;
  }
  return false;
}

std::string text_of(const cs_insn& instruction) {
  std::string text = instruction.mnemonic;
  if (instruction.op_str[0]) text += std::string(" ") + instruction.op_str;
  return text;
}

constexpr std::array kKeptForBoth = {
    X86_REG_RDI, X86_REG_EDI, X86_REG_DI,  X86_REG_DIL, X86_REG_RSI, X86_REG_ESI,
    X86_REG_SI,  X86_REG_SIL, X86_REG_RDX, X86_REG_EDX, X86_REG_DX,  X86_REG_DL,
    X86_REG_DH,  X86_REG_RCX, X86_REG_ECX, X86_REG_CX,  X86_REG_CL,  X86_REG_CH,
    X86_REG_RSP, X86_REG_ESP, X86_REG_SP,  X86_REG_SPL,
};
constexpr std::array kKeptForCall = {
    X86_REG_RDI, X86_REG_EDI, X86_REG_DI, X86_REG_DIL,
    X86_REG_RSI, X86_REG_ESI, X86_REG_SI, X86_REG_SIL,
};

}  // namespace

ProbePoint choose_probe_point(unsigned elf_machine, std::uint64_t address,
                              std::span<const std::uint8_t> code) {
  if (elf_machine != EM_X86_64) return {address, "first instruction", false};
  const Disassembly disassembly(address, code);
  const auto instructions = disassembly.instructions();
  for (const auto& instruction : instructions) {
    if (is_emulated(instruction)) {
      return {instruction.address, text_of(instruction), true};
    }
    if (is_branch(disassembly, instruction) || writes_any(disassembly, instruction, kKeptForBoth)) {
      break;
    }
  }
  return {address, instructions.empty() ? "not decoded" : text_of(instructions.front()), false};
}

std::optional<std::uint64_t> first_call_target(unsigned elf_machine, std::uint64_t address,
                                               std::span<const std::uint8_t> code) {
  if (elf_machine != EM_X86_64) return std::nullopt;
  const Disassembly disassembly(address, code);
  for (const auto& instruction : disassembly.instructions()) {
    const auto& x86 = instruction.detail->x86;
    if (instruction.id == X86_INS_CALL) {
      if (x86.op_count != 1 || x86.operands[0].type != X86_OP_IMM) return std::nullopt;
      return static_cast<std::uint64_t>(x86.operands[0].imm);
    }
    // A jump out of the straight line is the refusal of bad arguments; it does not return here.
    const bool conditional =
        in_group(disassembly, instruction, CS_GRP_JUMP) && instruction.id != X86_INS_JMP;
    if (!conditional && is_branch(disassembly, instruction)) return std::nullopt;
    if (writes_any(disassembly, instruction, kKeptForCall)) return std::nullopt;
  }
  return std::nullopt;
}

}  // namespace gcause
