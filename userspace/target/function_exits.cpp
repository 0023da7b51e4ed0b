// SPDX-License-Identifier: Apache-2.0
#include "target/function_exits.h"

#include <capstone/capstone.h>
#include <elf.h>

#include <algorithm>
#include <cstdio>
#include <deque>
#include <map>
#include <memory>
#include <optional>

#include "target/code_image.h"
#include "target/function_table.h"

namespace gcause {
namespace {

constexpr std::uint64_t kMaxFunction = 1 << 20;  ///< bytes; no probed function comes near
constexpr std::size_t kLookBack = 8;  ///< instructions in which a jump's target is computed

/// The stretch of code with unwinding information of its own that holds `address`.
std::optional<CodeRange> stretch_of(const ElfFile& elf, std::uint64_t address) {
  std::string why;
  const auto image = CodeImage::make(elf, why);
  if (!image) return std::nullopt;
  const auto table = FunctionTable::read(elf, *image, why);
  return table ? table->containing(address) : std::nullopt;
}

/// A disassembler of x86-64, one instruction at a time.
class Disassembler {
 public:
  Disassembler() {
    if (::cs_open(CS_ARCH_X86, CS_MODE_64, &handle_) != CS_ERR_OK) return;
    ::cs_option(handle_, CS_OPT_DETAIL, CS_OPT_ON);
    instruction_.reset(::cs_malloc(handle_));
  }
  ~Disassembler() {
    instruction_.reset();
    if (handle_) ::cs_close(&handle_);
  }
  Disassembler(const Disassembler&) = delete;
  Disassembler& operator=(const Disassembler&) = delete;

  /// Null at bytes that are no instruction, and at the end.
  const cs_insn* next(const std::uint8_t*& code, std::size_t& size, std::uint64_t& address) {
    return instruction_ && ::cs_disasm_iter(handle_, &code, &size, &address, instruction_.get())
               ? instruction_.get()
               : nullptr;
  }
  bool is_jump(const cs_insn& instruction) const {
    return ::cs_insn_group(handle_, &instruction, CS_GRP_JUMP);
  }
  bool is_return(const cs_insn& instruction) const {
    return ::cs_insn_group(handle_, &instruction, CS_GRP_RET);
  }

 private:
  struct Deleter {
    void operator()(cs_insn* instruction) const { ::cs_free(instruction, 1); }
  };
  csh handle_ = 0;
  std::unique_ptr<cs_insn, Deleter> instruction_;
};

/// What of an instruction tells a jump through a table from other indirect jumps.
struct Seen {
  bool reads_offset_table;   ///< a sign-extending load of 4 bytes with an index of scale 4
  bool reads_address_table;  ///< a load of 8 bytes with an index of scale 8
};

Seen look_at(const cs_insn& instruction) {
  Seen seen = {};
  const auto& x86 = instruction.detail->x86;
  for (std::uint8_t i = 0; i < x86.op_count; ++i) {
    const auto& operand = x86.operands[i];
    if (operand.type != X86_OP_MEM || operand.mem.index == X86_REG_INVALID) continue;
    seen.reads_offset_table |= instruction.id == X86_INS_MOVSXD && operand.mem.scale == 4;
    seen.reads_address_table |= operand.mem.scale == 8;
  }
  return seen;
}

/// Walks the ranges of one function and collects where it returns.
class ExitWalk {
 public:
  ExitWalk(const ElfFile& elf, std::span<const CodeRange> ranges) : elf_(elf), ranges_(ranges) {}

  /// Empty if all went well, else what stands against it.
  std::string walk() {
    for (const auto& range : ranges_) {
      const auto size = range.end - range.begin;
      if (range.end <= range.begin || size > kMaxFunction) return "its size makes no sense";
      const auto bytes = elf_.bytes_at(range.begin, size);
      if (bytes.size() != size) return "its code is not all in the file";
      if (auto why = walk_range(range, bytes); !why.empty()) return why;
    }
    if (exits_.empty()) return "it has no return instruction";
    return {};
  }

  std::vector<std::uint64_t> take() { return std::move(exits_); }

 private:
  std::string walk_range(const CodeRange& range, const std::vector<std::uint8_t>& bytes) {
    const auto* code = bytes.data();
    auto size = bytes.size();
    auto address = range.begin;
    std::deque<Seen> before;
    while (size > 0) {
      const auto at = address;
      const auto* instruction = disassembler_.next(code, size, address);
      if (!instruction) return "it holds bytes that are no instructions, at " + hex(at);
      if (disassembler_.is_return(*instruction)) {
        exits_.push_back(at);
      } else if (disassembler_.is_jump(*instruction)) {
        if (auto why = look_at_jump(*instruction, before); !why.empty()) return why;
      }
      before.push_back(look_at(*instruction));
      if (before.size() > kLookBack) before.pop_front();
    }
    return {};
  }

  std::string look_at_jump(const cs_insn& instruction, const std::deque<Seen>& before) const {
    const auto& x86 = instruction.detail->x86;
    if (x86.op_count != 1) return {};
    const auto& operand = x86.operands[0];
    if (operand.type == X86_OP_IMM) {
      if (inside(static_cast<std::uint64_t>(operand.imm))) return {};
      return "it is left by a jump at " + hex(instruction.address);
    }
    // A switch: `notrack` where the compiler guards indirect jumps, else a target that was read
    // from a table. What remains may be the call of a function in the place of a return.
    const bool notrack = instruction.bytes[0] == 0x3e;
    const bool table = look_at(instruction).reads_address_table ||
                       std::any_of(before.begin(), before.end(), [](const Seen& seen) {
                         return seen.reads_offset_table || seen.reads_address_table;
                       });
    if (notrack || table) return {};
    return "it may be left by a jump at " + hex(instruction.address);
  }

  bool inside(std::uint64_t address) const {
    return std::any_of(ranges_.begin(), ranges_.end(), [&](const CodeRange& range) {
      return address >= range.begin && address < range.end;
    });
  }

  static std::string hex(std::uint64_t address) {
    char text[24];
    std::snprintf(text, sizeof text, "0x%llx", static_cast<unsigned long long>(address));
    return text;
  }

  const ElfFile& elf_;
  std::span<const CodeRange> ranges_;
  Disassembler disassembler_;
  std::vector<std::uint64_t> exits_;
};

/// Whether a site of this kind has a bracket whose end is worth a probe at each exit. The return of
/// libc's calls is not: kernels whose return probes issue a system call (Linux 6.11 on) have the
/// tracepoints for sockets (6.3 on), and read_return sites only sharpen what these tell.
bool has_bracket(ProbeKind kind) {
  switch (kind) {
    case ProbeKind::collector:
    case ProbeKind::tls_call:
      return true;
    case ProbeKind::collector_usdt:
    case ProbeKind::tls_free:
    case ProbeKind::libc_call:
    case ProbeKind::read_return:
    case ProbeKind::world_stop:
    case ProbeKind::world_start:
    case ProbeKind::library_load:
      return false;
  }
  return false;
}

bool needs_return_probe(ProbeKind kind) {
  return kind == ProbeKind::libc_call || kind == ProbeKind::read_return;
}

Result<> fill_exits(const ElfFile& elf, ProbeSite& site) {
  const auto ranges =
      site.ranges.empty() ? ranges_of_function(elf, site.point.address) : site.ranges;
  auto exits = function_exits(elf, ranges, site.symbol);
  if (!exits) return exits.error();
  for (const auto address : *exits) {
    const auto offset = elf.file_offset(address);
    if (!offset) return Error{site.symbol + " is not all in its file", "report this"};
    site.exits.push_back(*offset);
  }
  return Ok{};
}

Error no_safe_end(const Target& target, const Error& error) {
  return Error{"process " + std::to_string(target.pid) +
                   " runs under a seccomp filter, which may kill it at a return probe on this "
                   "kernel, and " +
                   error.what,
               error.cure};
}

}  // namespace

std::vector<CodeRange> ranges_of_function(const ElfFile& elf, std::uint64_t address) {
  std::vector<CodeRange> ranges;
  std::string name;
  elf.for_each_symbol([&](const ElfSymbol& symbol) {
    if (!symbol.function || address < symbol.address || address - symbol.address >= symbol.size) {
      return true;
    }
    name = symbol.name;
    ranges.push_back({symbol.address, symbol.address + symbol.size});
    return false;
  });
  if (const auto stretch = stretch_of(elf, address)) ranges = {*stretch};
  if (name.empty()) return ranges;
  elf.for_each_symbol([&](const ElfSymbol& symbol) {
    const bool part = symbol.function && symbol.size > 0 && symbol.name.starts_with(name) &&
                      symbol.name.substr(name.size()).starts_with(".cold");
    if (part) ranges.push_back({symbol.address, symbol.address + symbol.size});
    return true;
  });
  return ranges;
}

Result<std::vector<std::uint64_t>> function_exits(const ElfFile& elf,
                                                  std::span<const CodeRange> ranges,
                                                  const std::string& name) {
  std::string why = "its extent is not known";
  if (elf.machine() != EM_X86_64) {
    why = "exits are looked for in x86-64 code only";
  } else if (!ranges.empty()) {
    ExitWalk walk(elf, ranges);
    why = walk.walk();
    if (why.empty()) return walk.take();
  }
  return Error{
      "the exits of " + name + " cannot be found: " + why,
      "use a kernel that exempts return probes from seccomp: Linux before 6.11, or 6.14 and later"};
}

Result<> take_ends_at_exits(Target& target, std::vector<ProbeSite>& sites) {
  std::map<std::string, std::optional<ElfFile>> files;
  std::vector<ProbeSite> kept;
  for (const auto& site : sites) {
    if (needs_return_probe(site.kind)) continue;
    if (!has_bracket(site.kind)) {
      kept.push_back(site);
      continue;
    }
    auto& file = files[site.open_path];
    if (!file) {
      auto opened = ElfFile::open(site.open_path);
      if (!opened) return opened.error();
      file.emplace(*std::move(opened));
    }
    // What the exported TLS functions share ends in a jump to the method's function.
    for (auto& exported : exported_sites(*file, site)) {
      auto filled = fill_exits(*file, exported);
      if (filled) {
        kept.push_back(std::move(exported));
      } else if (site.kind == ProbeKind::collector) {
        return no_safe_end(target, filled.error());
      } else {
        target.notes.push_back(filled.error().what +
                               "; streams that it handles are not seen, as a return probe might "
                               "kill the process, which runs under a seccomp filter");
      }
    }
  }
  sites = std::move(kept);
  return Ok{};
}

}  // namespace gcause
