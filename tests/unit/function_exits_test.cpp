// SPDX-License-Identifier: Apache-2.0
#include "target/function_exits.h"

#include <elf.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <vector>

namespace gcause {
namespace {

using Bytes = std::vector<std::uint8_t>;
using Catch::Matchers::ContainsSubstring;

constexpr std::uint64_t kCode = 0x401000;  // address of the code, at file offset 0x1000

/// An ELF file that holds nothing but this code.
class CodeFile {
 public:
  explicit CodeFile(const Bytes& code, unsigned machine = EM_X86_64) {
    Elf64_Ehdr header = {};
    std::memcpy(header.e_ident, ELFMAG, SELFMAG);
    header.e_ident[EI_CLASS] = ELFCLASS64;
    header.e_ident[EI_DATA] = ELFDATA2LSB;
    header.e_ident[EI_VERSION] = EV_CURRENT;
    header.e_type = ET_EXEC;
    header.e_machine = static_cast<Elf64_Half>(machine);
    header.e_version = EV_CURRENT;
    header.e_phoff = sizeof header;
    header.e_ehsize = sizeof header;
    header.e_phentsize = sizeof(Elf64_Phdr);
    header.e_phnum = 1;
    Elf64_Phdr segment = {PT_LOAD, PF_R | PF_X, 0x1000,      kCode,
                          kCode,   code.size(), code.size(), 0x1000};
    Bytes file(0x1000);
    std::memcpy(file.data(), &header, sizeof header);
    std::memcpy(file.data() + sizeof header, &segment, sizeof segment);
    file.insert(file.end(), code.begin(), code.end());
    const int fd = ::mkstemp(path_);
    REQUIRE(fd >= 0);
    REQUIRE(::write(fd, file.data(), file.size()) == static_cast<ssize_t>(file.size()));
    ::close(fd);
  }
  ~CodeFile() { ::unlink(path_); }
  CodeFile(const CodeFile&) = delete;
  CodeFile& operator=(const CodeFile&) = delete;

  Result<std::vector<std::uint64_t>> exits(const std::vector<CodeRange>& ranges) const {
    const auto elf = ElfFile::open(path_);
    REQUIRE(elf);
    return function_exits(*elf, ranges, "f");
  }

 private:
  char path_[32] = "/tmp/gcause-test-XXXXXX";
};

std::vector<CodeRange> whole(const Bytes& code) { return {{kCode, kCode + code.size()}}; }

Result<std::vector<std::uint64_t>> exits_of(const Bytes& code) {
  return CodeFile(code).exits(whole(code));
}

void check_refused(const Bytes& code, const std::string& why) {
  const auto exits = exits_of(code);
  REQUIRE_FALSE(exits);
  CHECK_THAT(exits.error().what, ContainsSubstring("the exits of f cannot be found"));
  CHECK_THAT(exits.error().what, ContainsSubstring(why));
  CHECK_FALSE(exits.error().cure.empty());
}

TEST_CASE("every return instruction is an exit, also the odd ones") {
  // test edi,edi; je +1; ret; ret 8; repz ret; bnd ret
  const auto exits =
      exits_of({0x85, 0xff, 0x74, 0x01, 0xc3, 0xc2, 0x08, 0x00, 0xf3, 0xc3, 0xf2, 0xc3});
  REQUIRE(exits);
  CHECK(*exits == std::vector<std::uint64_t>{kCode + 4, kCode + 5, kCode + 8, kCode + 10});
}

TEST_CASE("a jump out of the function is refused, and says where") {
  check_refused({0x31, 0xc0, 0xeb, 0x10, 0xc3}, "left by a jump at 0x401002");
  check_refused({0x85, 0xff, 0x0f, 0x84, 0x00, 0x01, 0x00, 0x00, 0xc3},
                "left by a jump at 0x401002");
}

TEST_CASE("a part that was moved away belongs to the function") {
  // jmp to the part; three bytes of something else; the part: jmp back to a ret
  const Bytes code = {0xeb, 0x04, 0xc3, 0x0f, 0x0b, 0x90, 0xeb, 0xfa};
  const auto exits = CodeFile(code).exits({{kCode, kCode + 3}, {kCode + 6, kCode + 8}});
  REQUIRE(exits);
  CHECK(*exits == std::vector<std::uint64_t>{kCode + 2});
}

TEST_CASE("an indirect jump is a tail call unless its target comes from a table") {
  check_refused({0xff, 0xe0, 0xc3}, "may be left by a jump at 0x401000");        // jmp rax
  check_refused({0xff, 0x60, 0x28, 0xc3}, "may be left by a jump at 0x401000");  // jmp [rax+0x28]
  CHECK(exits_of({0x3e, 0xff, 0xe0, 0xc3}));                                     // notrack jmp rax
  CHECK(exits_of({0xff, 0x24, 0xc5, 0x00, 0x20, 0x40, 0x00, 0xc3}));             // jmp [rax*8+..]
  CHECK(
      exits_of({0x48, 0x63, 0x04, 0x82, 0x48, 0x01, 0xd0, 0xff, 0xe0, 0xc3}));  // movsxd; add; jmp
}

TEST_CASE("calls and traps are no exits") {
  // call +0x100; ud2; ret
  const auto exits = exits_of({0xe8, 0x00, 0x01, 0x00, 0x00, 0x0f, 0x0b, 0xc3});
  REQUIRE(exits);
  CHECK(*exits == std::vector<std::uint64_t>{kCode + 7});
}

TEST_CASE("what is no code, has no end or no sense is refused") {
  check_refused({0x06, 0xc3}, "no instructions, at 0x401000");
  check_refused({0x90, 0x90}, "no return instruction");
  const Bytes code = {0xc3};
  CHECK_FALSE(CodeFile(code).exits({}));
  CHECK_FALSE(CodeFile(code).exits({{kCode, kCode}}));
  CHECK_FALSE(CodeFile(code).exits({{kCode, kCode + 2}}));
  CHECK_FALSE(CodeFile(code).exits({{kCode + 1, kCode}}));
  CHECK_FALSE(CodeFile(code).exits({{kCode, ~std::uint64_t{0}}}));
  CHECK_FALSE(CodeFile(code, EM_AARCH64).exits(whole(code)));
}

TEST_CASE("a function of this program is found by its unwinding information, and by its symbol") {
  const auto elf = ElfFile::open("/proc/self/exe");
  REQUIRE(elf);
  const auto symbol = elf->find("main");
  REQUIRE(symbol);
  const auto ranges = ranges_of_function(*elf, symbol->address + 1);
  REQUIRE_FALSE(ranges.empty());
  CHECK(ranges.front() == CodeRange{symbol->address, symbol->address + symbol->size});
  CHECK(ranges_of_function(*elf, 1).empty());
}

}  // namespace
}  // namespace gcause
