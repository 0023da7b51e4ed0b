// SPDX-License-Identifier: Apache-2.0
#include "target/prologue.h"

#include <elf.h>

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <random>
#include <utility>
#include <vector>

namespace gcause {
namespace {

using Code = std::vector<std::uint8_t>;
constexpr std::uint64_t kAt = 0x10a910;

Code operator+(Code left, const Code& right) {
  left.insert(left.end(), right.begin(), right.end());
  return left;
}

const Code kEndbr64{0xf3, 0x0f, 0x1e, 0xfa};
const Code kPushRbp{0x55};
const Code kPushR12{0x41, 0x54};
const Code kMovRbpRsp{0x48, 0x89, 0xe5};
const Code kMovRbxRdi{0x48, 0x89, 0xfb};
const Code kSubRsp8{0x48, 0x83, 0xec, 0x08};
const Code kRet{0xc3};
const Code kNop5{0x0f, 0x1f, 0x44, 0x00, 0x00};
const Code kXorEaxEax{0x31, 0xc0};

ProbePoint choose(const Code& code) { return choose_probe_point(EM_X86_64, kAt, code); }

TEST_CASE("the probe goes on the first instruction that the kernel emulates") {
  // __recv of glibc 2.36: cmpb $0, __libc_single_threaded; mov %ecx, %r10d; je
  const Code glibc_recv{0x80, 0x3d, 0xc1, 0x0c, 0x0d, 0x00, 0x00, 0x41, 0x89, 0xca, 0x74, 0x1c};
  const auto [code, offset] = GENERATE_REF(table<Code, std::uint64_t>({
      {glibc_recv, 10},
      {kPushRbp + kMovRbpRsp, 0},
      {kEndbr64 + kPushRbp + kMovRbpRsp, 4},
      {kEndbr64 + kPushR12 + kPushRbp, 4},
      {kNop5 + kPushRbp, 0},
      {kMovRbxRdi + kXorEaxEax + kPushRbp, 5},
      {kXorEaxEax + Code{0xe9, 0x00, 0x01, 0x00, 0x00}, 2},        // jmp rel32
      {kXorEaxEax + Code{0x0f, 0x84, 0x00, 0x01, 0x00, 0x00}, 2},  // je rel32
      {kXorEaxEax + Code{0xeb, 0x10}, 2},                          // jmp rel8
      {Code{0x85, 0xd2, 0x78, 0x2f}, 2},                           // test %edx, %edx; js
  }));
  const auto point = choose(code);
  CHECK(point.emulated);
  CHECK(point.address == kAt + offset);
  CHECK_FALSE(point.instruction.empty());
}

TEST_CASE("where there is none before the arguments are touched, it goes on the first") {
  const auto code = GENERATE_COPY(
      kSubRsp8 + kPushRbp,                                         // the return address has moved
      kMovRbxRdi + Code{0x48, 0x89, 0xf7} + kPushRbp,              // mov %rsi, %rdi
      kXorEaxEax + Code{0x31, 0xf6} + kPushRbp,                    // xor %esi, %esi
      kXorEaxEax + Code{0x48, 0x63, 0xd2} + kPushRbp,              // movslq %edx, %rdx
      kXorEaxEax + Code{0x48, 0x89, 0xe1} + kPushRbp,              // mov %rsp, %rcx
      kXorEaxEax + Code{0xe8, 0x00, 0x00, 0x00, 0x00} + kPushRbp,  // call
      kXorEaxEax + Code{0xff, 0xe0} + kPushRbp,                    // jmp *%rax
      kXorEaxEax + kRet + kPushRbp,
      kXorEaxEax + Code{0x68, 0x01, 0x00, 0x00, 0x00} + kPushRbp);  // push $1 moves the stack
  const auto point = choose(code);
  CHECK_FALSE(point.emulated);
  CHECK(point.address == kAt);
}

TEST_CASE("what the kernel does not emulate is not said to be cheap") {
  // arch/x86/kernel/uprobes.c: push_setup_xol_ops takes 50..57, alone or behind REX.B; of the
  // branches branch_setup_xol_ops takes jmp, call and jcc. The rest is single-stepped.
  const auto code = GENERATE(Code{0x0f, 0xa0},   // push %fs
                             Code{0x66, 0x50},   // push %ax
                             Code{0xe3, 0x10},   // jrcxz
                             Code{0xff, 0xf0});  // push %rax, the long way
  CHECK_FALSE(choose(code).emulated);
}

TEST_CASE("a write to a part of an argument register is a write") {
  // cs_regs_access names the written register only (sil), and the lists of kept registers hold
  // whole ones and their lower halves (rsi, esi).
  const Code call{0xe8, 0x00, 0x01, 0x00, 0x00};
  const auto code = GENERATE(Code{0x40, 0xb6, 0x01},         // mov $1, %sil
                             Code{0x66, 0xbe, 0x01, 0x00});  // mov $1, %si
  CHECK_FALSE(first_call_target(EM_X86_64, kAt, code + call));
  CHECK_FALSE(choose(code + kPushRbp).emulated);
}

TEST_CASE("no code, or none that can be read, gives the first address") {
  CHECK(choose({}).address == kAt);
  CHECK_FALSE(choose({}).emulated);
  CHECK_FALSE(choose({}).instruction.empty());
  const Code garbage{0x06, 0x07, 0x0e, 0x16, 0x17};  // not in 64-bit mode
  CHECK(choose(garbage).address == kAt);
  CHECK_FALSE(choose(garbage).emulated);
  CHECK_FALSE(choose(Code{0x48}).emulated);  // cut off inside an instruction
}

TEST_CASE("other machines are not looked into") {
  const auto point = choose_probe_point(EM_AARCH64, kAt, kEndbr64 + kPushRbp);
  CHECK(point.address == kAt);
  CHECK_FALSE(point.emulated);
  const Code call = kSubRsp8 + Code{0xe8, 0x00, 0x00, 0x00, 0x00};
  CHECK_FALSE(first_call_target(EM_AARCH64, kAt, call));
}

TEST_CASE("the first direct call is found, forwards and backwards") {
  // SSL_read_ex of OpenSSL 3.0: sub $8, %rsp; call ssl_read_internal
  const Code ssl_read_ex = kSubRsp8 + Code{0xe8, 0xc7, 0xfd, 0xff, 0xff};
  CHECK(first_call_target(EM_X86_64, 0x35500, ssl_read_ex) == 0x352d0);
  const Code forwards = kEndbr64 + kPushRbp + kMovRbpRsp + Code{0xe8, 0x00, 0x01, 0x00, 0x00};
  CHECK(first_call_target(EM_X86_64, 0x1000, forwards) == 0x1000 + 13 + 0x100);
}

TEST_CASE("the call may stand behind the refusal of bad arguments, and changed other registers") {
  // SSL_read of OpenSSL 3.0: test %edx, %edx; js; mov %rsp, %rcx; movslq %edx, %rdx; call
  const Code ssl_read = Code{0x48, 0x83, 0xec, 0x18, 0x31, 0xc0, 0x85, 0xd2, 0x78, 0x2f} +
                        Code{0x48, 0x89, 0xe1, 0x48, 0x63, 0xd2} +
                        Code{0xe8, 0x3d, 0xfe, 0xff, 0xff};
  CHECK(first_call_target(EM_X86_64, 0x1000, ssl_read) == 0x1000 + 21 - 0x1c3);
}

TEST_CASE("a call with other arguments, or behind another branch, is not the one") {
  const Code call{0xe8, 0x00, 0x01, 0x00, 0x00};
  const auto code = GENERATE_COPY(Code{0x48, 0x89, 0xf7} + call,  // mov %rsi, %rdi
                                  Code{0x31, 0xf6} + call,        // xor %esi, %esi
                                  Code{0xeb, 0x00} + call, kRet + call, Code{0xcc} + call,
                                  Code{0xff, 0xd0} + call,              // call *%rax
                                  Code{0xff, 0x15, 0, 0, 0, 0} + call,  // call *(%rip)
                                  kSubRsp8, Code{}, Code{0xe8, 0x00, 0x01});
  CHECK_FALSE(first_call_target(EM_X86_64, kAt, code));
}

TEST_CASE("any bytes are survived, and the point stays inside them") {
  std::mt19937 engine(3);
  for (int i = 0; i < 3'000; ++i) {
    Code code(engine() % 40);
    for (auto& byte : code) byte = static_cast<std::uint8_t>(engine());
    const auto point = choose(code);
    REQUIRE(point.address >= kAt);
    REQUIRE(point.address < kAt + code.size() + 1);
    REQUIRE((point.emulated || point.address == kAt));
    (void)first_call_target(EM_X86_64, kAt, code);
  }
}

}  // namespace
}  // namespace gcause
