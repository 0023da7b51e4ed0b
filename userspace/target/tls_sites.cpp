// SPDX-License-Identifier: Apache-2.0
#include "target/tls_sites.h"

#include <algorithm>
#include <array>
#include <span>
#include <string_view>
#include <utility>

#include "target/code_image.h"
#include "target/openssl_scan.h"

namespace gcause {
namespace {

using namespace std::string_view_literals;

struct NamedCall {
  std::string_view name;
  CallShape shape;
};

// The order of the first four is used below.
constexpr std::array kCalls = {
    NamedCall{"SSL_read", CallShape::tls_read},
    NamedCall{"SSL_read_ex", CallShape::tls_read_ex},
    NamedCall{"SSL_write", CallShape::tls_write},
    NamedCall{"SSL_write_ex", CallShape::tls_write_ex},
    // (session, buffer, length) -> bytes, or a negative error: lib/includes/gnutls/gnutls.h.in
    NamedCall{"gnutls_record_recv", CallShape::tls_read},
    NamedCall{"gnutls_record_send", CallShape::tls_write},
};
constexpr std::array kEnds = {"SSL_free"sv, "gnutls_deinit"sv};
constexpr std::size_t kNames = kCalls.size() + kEnds.size();

constexpr std::string_view name_at(std::size_t index) {
  return index < kCalls.size() ? kCalls[index].name : kEnds[index - kCalls.size()];
}

bool is_code(const ElfFile& elf, std::uint64_t address) {
  return std::ranges::any_of(elf.segments(), [&](const ElfSegment& segment) {
    return segment.executable && address >= segment.address &&
           address - segment.address < segment.size;
  });
}

using Addresses = std::array<std::optional<std::uint64_t>, kNames>;

/// One pass over the symbols, as most files have many and none of these. Hidden functions count as
/// long as a symbol table names them.
Addresses find_functions(const ElfFile& elf) {
  Addresses found;
  elf.for_each_symbol([&](const ElfSymbol& symbol) {
    if (!symbol.function || (symbol.name[0] != 'S' && symbol.name[0] != 'g')) return true;
    for (std::size_t i = 0; i < kNames; ++i) {
      if (!found[i] && symbol.name == name_at(i) && is_code(elf, symbol.address)) {
        found[i] = symbol.address;
      }
    }
    return true;
  });
  return found;
}

/// SSL_read and SSL_read_ex of OpenSSL (1.1.1 on) are thin shells around one internal function
/// whose arguments are those of the _ex form, and whose prologue can take a return probe without
/// single-stepping (ssl/ssl_lib.c: ssl_read_internal). It is taken where both shells call it.
std::optional<std::uint64_t> shared_callee(const ElfFile& elf, std::uint64_t plain,
                                           std::uint64_t extended) {
  const auto callee = [&](std::uint64_t function) {
    return first_call_target(elf.machine(), function, elf.bytes_at(function, kPrologueBytes));
  };
  const auto of_plain = callee(plain);
  return of_plain && of_plain == callee(extended) ? of_plain : std::nullopt;
}

/// A site for both forms of a call in what they share; nothing where that is not cheaper.
std::optional<ProbeSite> shared_site(const MappedObject& object, std::size_t plain,
                                     const Addresses& found) {
  const auto extended = plain + 1;
  if (!found[plain] || !found[extended]) return std::nullopt;
  const auto callee = shared_callee(object.elf, *found[plain], *found[extended]);
  if (!callee) return std::nullopt;
  const auto names = std::string(name_at(plain)) + ", " + std::string(name_at(extended));
  auto site = make_site(object, ProbeKind::tls_call, kCalls[extended].shape, names, *callee);
  if (!site.point.emulated) return std::nullopt;
  return site;
}

TlsProbes probes_by_symbol(const MappedObject& object, const Addresses& found) {
  TlsProbes probes{{object.path, TlsSource::symbols, {}}, {}};
  std::array<bool, kNames> done = {};
  for (const std::size_t plain : {0u, 2u}) {
    if (auto site = shared_site(object, plain, found)) {
      probes.sites.push_back(*std::move(site));
      done[plain] = done[plain + 1] = true;
    }
  }
  for (std::size_t i = 0; i < kNames; ++i) {
    if (!found[i]) continue;
    const bool call = i < kCalls.size();
    if (call) probes.library.functions.emplace_back(name_at(i));
    if (done[i]) continue;
    probes.sites.push_back(make_site(object, call ? ProbeKind::tls_call : ProbeKind::tls_free,
                                     call ? kCalls[i].shape : CallShape::none,
                                     std::string(name_at(i)), *found[i]));
  }
  return probes;
}

std::optional<TlsProbes> probes_in_code(const MappedObject& object) {
  const auto scan = scan_for_openssl(object.elf);
  if (!scan.functions) return std::nullopt;
  TlsProbes probes{{object.path, TlsSource::code, {kOpensslRead, kOpensslWrite}}, {}};
  probes.sites.push_back(make_site(object, ProbeKind::tls_call, CallShape::tls_read_ex,
                                   kOpensslRead, scan.functions->read));
  probes.sites.push_back(make_site(object, ProbeKind::tls_call, CallShape::tls_write_ex,
                                   kOpensslWrite, scan.functions->write));
  return probes;
}

}  // namespace

std::optional<TlsProbes> tls_probes_of(const MappedObject& object, bool in_code) {
  const auto found = find_functions(object.elf);
  const auto calls = std::span(found).first(kCalls.size());
  if (std::ranges::any_of(calls, [](const auto& address) { return address.has_value(); })) {
    return probes_by_symbol(object, found);
  }
  return in_code ? probes_in_code(object) : std::nullopt;
}

bool speaks_tls(const ElfFile& elf) {
  // Labels of the key schedule of TLS 1.3 (RFC 8446, section 7.1), and of the Finished message
  // before it (RFC 5246, section 7.4.9).
  constexpr std::array kLabels = {"c ap traffic"sv, "client finished"sv};
  std::string why;
  const auto image = CodeImage::make(elf, why);
  return image && std::ranges::any_of(kLabels, [&](std::string_view label) {
    return !image->find({reinterpret_cast<const std::uint8_t*>(label.data()), label.size()}, 1)
                .empty();
  });
}

std::vector<ProbeSite> exported_sites(const ElfFile& elf, const ProbeSite& site) {
  if (site.kind != ProbeKind::tls_call || site.symbol.find(',') == std::string::npos) return {site};
  const auto found = find_functions(elf);
  std::vector<ProbeSite> sites;
  for (std::size_t i = 0; i < kCalls.size(); ++i) {
    const std::string name(kCalls[i].name);
    if (!found[i] || (" " + site.symbol + ",").find(" " + name + ",") == std::string::npos) continue;
    auto exported = site;
    exported.shape = kCalls[i].shape;
    exported.symbol = name;
    place(exported, elf, *found[i]);
    sites.push_back(std::move(exported));
  }
  return sites;
}

}  // namespace gcause
