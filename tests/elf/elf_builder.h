// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace gcause::testing {

using Bytes = std::vector<std::uint8_t>;

/// Encodes the few instructions that the search for the collector looks at.
class Assembler {
 public:
  /// `machine` is EM_X86_64 or EM_AARCH64, `address` that of the first instruction.
  Assembler(unsigned machine, std::uint64_t address) : machine_(machine), address_(address) {}

  Assembler& call(std::uint64_t target);
  Assembler& jump(std::uint64_t target);
  Assembler& jump_if(std::uint64_t target);
  Assembler& take_address(std::uint64_t data);
  /// mov $data, %edi; x86-64 only.
  Assembler& take_absolute_address(std::uint32_t data);
  Assembler& nops(unsigned count);
  Assembler& ret();

  const Bytes& bytes() const { return bytes_; }

 private:
  std::uint64_t here() const { return address_ + bytes_.size(); }
  void append(std::uint64_t value, unsigned count);
  void x86(std::initializer_list<std::uint8_t> opcode, std::uint64_t target);

  unsigned machine_;
  std::uint64_t address_;
  Bytes bytes_;
};

/// Makes a small ELF file, 64 bits and little endian, in which addresses are file offsets:
/// constants from kConstants on, code from kCode to kCodeEnd, unwinding information behind.
class ElfBuilder {
 public:
  static constexpr std::uint64_t kConstants = 0x400;
  static constexpr std::uint64_t kCode = 0x1000;
  static constexpr std::uint64_t kCodeEnd = 0x3000;

  explicit ElfBuilder(unsigned machine, unsigned type = 3 /* ET_DYN */)
      : machine_(machine), type_(type) {}

  /// Code with unwinding information of its own. `mid_function`: it says that a frame is set up.
  void add_code(std::uint64_t address, const Bytes& code, bool mid_function = false);
  void add_constant(std::uint64_t address, std::string_view bytes);
  void add_symbol(std::string name, std::uint64_t address, std::uint64_t size, bool exported = true,
                  bool function = true);
  void add_section(std::string name, Bytes bytes, std::uint32_t type = 1 /* SHT_PROGBITS */);
  void add_usdt(std::string_view provider, std::string_view name);
  void set_build_id(Bytes build_id) { build_id_ = std::move(build_id); }

  unsigned machine() const { return machine_; }
  Bytes build() const;

 private:
  struct Stretch {
    std::uint64_t begin;
    std::uint64_t size;
    bool mid_function;
  };
  struct Symbol {
    std::string name;
    std::uint64_t address;
    std::uint64_t size;
    bool exported;
    bool function;
  };
  struct Section {
    std::string name;
    std::uint32_t type;
    Bytes bytes;
    std::uint32_t link = 0;
    std::uint64_t entry_size = 0;
  };

  Bytes unwinding(std::uint64_t at) const;
  std::vector<Section> sections() const;

  unsigned machine_;
  unsigned type_;
  Bytes loaded_ = Bytes(kCodeEnd);
  std::vector<Stretch> stretches_;
  std::vector<Symbol> symbols_;
  std::vector<Section> extra_;
  Bytes build_id_ = Bytes(20, 0xab);
};

/// Addresses in cpython_alike().
struct Alike {
  static constexpr std::uint64_t kManual = 0x1000;     ///< PyGC_Collect, calls kCollector
  static constexpr std::uint64_t kCollector = 0x1100;  ///< the function
  static constexpr std::uint64_t kCollectorSize = 0x60;
  static constexpr std::uint64_t kOther = 0x1200;  ///< some other function
  static constexpr std::uint64_t kCold = 0x1800;   ///< the collector's fragment
  static constexpr std::uint64_t kColdSize = 0x40;
  static constexpr std::uint64_t kBanner = 0x400;
  static constexpr std::uint64_t kDone = 0x440;
};

/// How the collector's fragment can be told.
enum class Cold : std::uint8_t { none, by_unwinding, by_branches };

/// A stripped CPython in small. The banner is printed in the fragment, if there is one.
Bytes cpython_alike(ElfBuilder& builder, Cold cold = Cold::by_unwinding);

/// An xz stream.
Bytes packed(const Bytes& bytes);

}  // namespace gcause::testing
