// SPDX-License-Identifier: Apache-2.0
#include "target/tls_sites.h"

#include <elf.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <string>
#include <vector>

#include "elf_builder.h"
#include "target/openssl_scan.h"

namespace gcause {
namespace {

using namespace std::string_view_literals;
using testing::Assembler;
using testing::Bytes;
using testing::ElfBuilder;

const Bytes kPushRbp{0x55};

MappedObject mapped(const ElfBuilder& builder, const std::string& path = "/x/lib.so") {
  auto elf = ElfFile::from_memory(builder.build(), "test");
  REQUIRE(elf);
  return {path, "/opened" + path, *std::move(elf)};
}

/// A function that begins with a push and calls `callee`, if there is one.
void add_function(ElfBuilder& builder, const std::string& name, std::uint64_t address,
                  std::uint64_t callee = 0, bool exported = true) {
  Bytes code;
  if (callee == 0) {
    code = kPushRbp;
    code.push_back(0xc3);
  } else {
    code = Assembler(EM_X86_64, address).nops(1).call(callee).ret().bytes();
  }
  builder.add_code(address, code);
  if (!name.empty()) builder.add_symbol(name, address, code.size(), exported);
}

std::vector<std::string> symbols_of(const TlsProbes& probes) {
  std::vector<std::string> symbols;
  for (const auto& site : probes.sites) symbols.push_back(site.symbol);
  std::sort(symbols.begin(), symbols.end());
  return symbols;
}

const ProbeSite& site_of(const TlsProbes& probes, const std::string& symbol) {
  for (const auto& site : probes.sites) {
    if (site.symbol == symbol) return site;
  }
  FAIL("no site for " << symbol);
  return probes.sites.front();
}

ElfBuilder openssl(bool exported = true) {
  ElfBuilder builder(EM_X86_64);
  add_function(builder, "SSL_read", 0x1000, 0x1100, exported);
  add_function(builder, "SSL_read_ex", 0x1040, 0x1100, exported);
  add_function(builder, "", 0x1100);
  add_function(builder, "SSL_write", 0x1200, 0x1300, exported);
  add_function(builder, "SSL_write_ex", 0x1240, 0x1300, exported);
  add_function(builder, "", 0x1300);
  add_function(builder, "SSL_free", 0x1400, 0, exported);
  return builder;
}

TEST_CASE("both forms of a call are probed once, in what they share") {
  const bool exported = GENERATE(true, false);
  const auto probes = tls_probes_of(mapped(openssl(exported)), false);
  REQUIRE(probes);
  CHECK(probes->library.source == TlsSource::symbols);
  CHECK(probes->library.object == "/x/lib.so");
  CHECK(probes->library.functions ==
        std::vector<std::string>{"SSL_read", "SSL_read_ex", "SSL_write", "SSL_write_ex"});
  CHECK(symbols_of(*probes) ==
        std::vector<std::string>{"SSL_free", "SSL_read, SSL_read_ex", "SSL_write, SSL_write_ex"});
  const auto& read = site_of(*probes, "SSL_read, SSL_read_ex");
  CHECK(read.point.address == 0x1100);
  CHECK(read.shape == CallShape::tls_read_ex);
  CHECK(read.kind == ProbeKind::tls_call);
  CHECK(site_of(*probes, "SSL_write, SSL_write_ex").point.address == 0x1300);
  CHECK(site_of(*probes, "SSL_free").kind == ProbeKind::tls_free);
}

TEST_CASE("forms that share nothing are probed each with its own shape") {
  ElfBuilder builder(EM_X86_64);
  add_function(builder, "SSL_read", 0x1000);
  add_function(builder, "SSL_read_ex", 0x1040);
  const auto probes = tls_probes_of(mapped(builder), false);
  REQUIRE(probes);
  CHECK(symbols_of(*probes) == std::vector<std::string>{"SSL_read", "SSL_read_ex"});
  CHECK(site_of(*probes, "SSL_read").shape == CallShape::tls_read);
  CHECK(site_of(*probes, "SSL_read_ex").shape == CallShape::tls_read_ex);
}

TEST_CASE("BoringSSL has the plain forms only, GnuTLS names of its own") {
  ElfBuilder boring(EM_X86_64), gnu(EM_X86_64);
  add_function(boring, "SSL_read", 0x1000);
  add_function(boring, "SSL_write", 0x1040);
  add_function(boring, "SSL_free", 0x1080);
  add_function(gnu, "gnutls_record_recv", 0x1000);
  add_function(gnu, "gnutls_record_send", 0x1040);
  add_function(gnu, "gnutls_deinit", 0x1080);
  CHECK(symbols_of(*tls_probes_of(mapped(boring), false)) ==
        std::vector<std::string>{"SSL_free", "SSL_read", "SSL_write"});
  const auto probes = tls_probes_of(mapped(gnu), false);
  REQUIRE(probes);
  CHECK(site_of(*probes, "gnutls_record_recv").shape == CallShape::tls_read);
  CHECK(site_of(*probes, "gnutls_record_send").shape == CallShape::tls_write);
  CHECK(site_of(*probes, "gnutls_deinit").kind == ProbeKind::tls_free);
}

TEST_CASE("what has the name and is no code of the file is not probed") {
  ElfBuilder builder(EM_X86_64);
  builder.add_symbol("SSL_read", GENERATE(0x410, 0x3000, 0x123456789), 0x60);
  builder.add_symbol("SSL_write", 0x1000, 8, true, false);
  builder.add_symbol("SSL_readable", 0x1000, 8);
  CHECK_FALSE(tls_probes_of(mapped(builder), true));
}

TEST_CASE("a file without calls is no library, even where it can end connections") {
  ElfBuilder builder(EM_X86_64);
  add_function(builder, "SSL_free", 0x1000);
  CHECK_FALSE(tls_probes_of(mapped(builder), true));
}

TEST_CASE("the exported functions behind a shared site") {
  const auto object = mapped(openssl());
  const auto probes = tls_probes_of(object, false);
  REQUIRE(probes);
  const auto sites = exported_sites(object.elf, site_of(*probes, "SSL_read, SSL_read_ex"));
  REQUIRE(sites.size() == 2);
  CHECK(sites[0].symbol == "SSL_read");
  CHECK(sites[0].shape == CallShape::tls_read);
  CHECK(sites[1].symbol == "SSL_read_ex");
  CHECK(sites[1].point.address == 0x1040);
  const auto single = exported_sites(object.elf, site_of(*probes, "SSL_free"));
  REQUIRE(single.size() == 1);
  CHECK(single[0].symbol == "SSL_free");
}

constexpr std::uint64_t kReadName = 0x400, kWriteName = 0x440;

/// OpenSSL 3 without a symbol: the two functions, each called by others, refer to their own names.
ElfBuilder stripped_openssl(unsigned machine, bool cold) {
  ElfBuilder builder(machine);
  builder.add_constant(kReadName, "ssl_read_internal\0"sv);
  builder.add_constant(kWriteName, "ssl_write_internal\0"sv);
  Assembler read(machine, 0x1100), write(machine, 0x1200), fragment(machine, 0x1800);
  if (cold) {
    builder.add_code(0x1100, read.nops(2).jump_if(0x1800).ret().bytes());
    builder.add_code(0x1800, fragment.take_address(kReadName).jump(0x1108).bytes(), true);
  } else {
    builder.add_code(0x1100, read.nops(2).take_address(kReadName).ret().bytes());
  }
  builder.add_code(0x1200, write.nops(2).take_address(kWriteName).ret().bytes());
  builder.add_code(0x1300, Assembler(machine, 0x1300).call(0x1100).call(0x1200).ret().bytes());
  builder.add_code(0x1340, Assembler(machine, 0x1340).call(0x1100).call(0x1200).ret().bytes());
  return builder;
}

TEST_CASE("OpenSSL 3 without symbols is known by the names in its errors") {
  const auto machine = GENERATE(EM_X86_64, EM_AARCH64);
  const bool cold = GENERATE(false, true);
  const auto object = mapped(stripped_openssl(machine, cold));
  const auto scan = scan_for_openssl(object.elf);
  INFO(scan.result);
  REQUIRE(scan.functions);
  CHECK(scan.functions->read == 0x1100);
  CHECK(scan.functions->write == 0x1200);
  CHECK_FALSE(tls_probes_of(object, false));
  const auto probes = tls_probes_of(object, true);
  REQUIRE(probes);
  CHECK(probes->library.source == TlsSource::code);
  CHECK(symbols_of(*probes) ==
        std::vector<std::string>{"ssl_read_internal", "ssl_write_internal"});
  CHECK(site_of(*probes, "ssl_read_internal").shape == CallShape::tls_read_ex);
  CHECK(site_of(*probes, "ssl_write_internal").shape == CallShape::tls_write_ex);
}

TEST_CASE("where it is not certain which function it is, none is probed") {
  auto builder = stripped_openssl(EM_X86_64, false);
  SECTION("a copy that was inlined refers to the name, too") {
    Assembler copy(EM_X86_64, 0x1400);
    builder.add_code(0x1400, copy.take_address(kReadName).ret().bytes());
    builder.add_code(0x1500, Assembler(EM_X86_64, 0x1500).call(0x1400).ret().bytes());
  }
  SECTION("one function refers to both") {
    ElfBuilder both(EM_X86_64);
    both.add_constant(kReadName, "ssl_read_internal\0"sv);
    both.add_constant(kWriteName, "ssl_write_internal\0"sv);
    Assembler code(EM_X86_64, 0x1100);
    both.add_code(0x1100, code.take_address(kReadName).take_address(kWriteName).ret().bytes());
    builder = both;
  }
  SECTION("a name that begins like it") {
    ElfBuilder other(EM_X86_64);
    other.add_constant(kReadName, "ssl_read_internal_x\0"sv);
    Assembler code(EM_X86_64, 0x1100);
    other.add_code(0x1100, code.take_address(kReadName).ret().bytes());
    builder = other;
  }
  CHECK_FALSE(tls_probes_of(mapped(builder), true));
}

TEST_CASE("what speaks TLS holds the labels of its key schedule") {
  ElfBuilder none(EM_X86_64), old(EM_X86_64), recent(EM_X86_64);
  old.add_constant(0x400, "client finished"sv);
  recent.add_constant(0x400, "tls13 c ap traffic"sv);
  CHECK_FALSE(speaks_tls(mapped(none).elf));
  CHECK(speaks_tls(mapped(old).elf));
  CHECK(speaks_tls(mapped(recent).elf));
}

}  // namespace
}  // namespace gcause
