// SPDX-License-Identifier: Apache-2.0
#include "target/target.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "target/collector_cache.h"
#include "target/collector_finder.h"
#include "target/elf_file.h"
#include "target/process_memory.h"
#include "target/python.h"
#include "target/python_process.h"
#include "target/runtimes.h"

namespace gcause {
namespace {

constexpr std::size_t kPrologueBytes = 96;

struct NamedCall {
  std::string_view name;
  CallShape shape;
};

constexpr std::array kTlsCalls = {
    NamedCall{"SSL_read", CallShape::tls_read},
    NamedCall{"SSL_read_ex", CallShape::tls_read_ex},
    NamedCall{"SSL_write", CallShape::tls_write},
    NamedCall{"SSL_write_ex", CallShape::tls_write_ex},
};

constexpr std::array kLibcCalls = {
    NamedCall{"read", CallShape::libc_read},
    NamedCall{"recv", CallShape::libc_read},
    NamedCall{"recvfrom", CallShape::libc_read},
    NamedCall{"recvmsg", CallShape::libc_read_message},
    NamedCall{"readv", CallShape::libc_read_vector},
    NamedCall{"write", CallShape::libc_write},
    NamedCall{"send", CallShape::libc_write},
    NamedCall{"sendto", CallShape::libc_write},
    NamedCall{"sendmsg", CallShape::libc_write_message},
    NamedCall{"writev", CallShape::libc_write_vector},
};

std::string_view base_name(std::string_view path) { return path.substr(path.rfind('/') + 1); }

/// glibc before 2.34 has a second copy of the socket calls in libpthread.
bool is_libc(std::string_view path) {
  const auto name = base_name(path);
  return name.starts_with("libc.so") || name.starts_with("libc-") ||
         name.starts_with("libpthread") || name.starts_with("ld-musl");
}

/// One mapped file, opened.
struct Object {
  std::string path;
  std::string open_path;
  ElfFile elf;
};

/// Puts the site's probe into the function at `address`.
void place(ProbeSite& site, const ElfFile& elf, std::uint64_t address) {
  site.point = choose_probe_point(elf.machine(), address, elf.bytes_at(address, kPrologueBytes));
  site.file_offset = elf.file_offset(site.point.address).value_or(0);
}

ProbeSite make_site(const Object& object, ProbeKind kind, CallShape shape, std::string symbol,
                    std::uint64_t address) {
  ProbeSite site{kind, shape, object.path, object.open_path, std::move(symbol), {}, 0};
  place(site, object.elf, address);
  return site;
}

/// SSL_read and SSL_read_ex of OpenSSL (1.1.1 on) are thin shells around one internal function
/// whose arguments are those of the _ex form, and whose prologue can take a return probe without
/// single-stepping (ssl/ssl_lib.c: ssl_read_internal). It is taken where both shells call it.
std::optional<std::uint64_t> shared_callee(const ElfFile& elf, std::string_view plain,
                                           std::string_view extended) {
  std::optional<std::uint64_t> callees[2];
  const std::string_view names[2] = {plain, extended};
  for (int i = 0; i < 2; ++i) {
    const auto symbol = elf.find(names[i]);
    if (!symbol) return std::nullopt;
    const auto code = elf.bytes_at(symbol->address, kPrologueBytes);
    callees[i] = first_call_target(elf.machine(), symbol->address, code);
  }
  return callees[0] == callees[1] ? callees[0] : std::nullopt;
}

void add_tls_sites(const Object& object, std::vector<ProbeSite>& sites,
                   std::vector<TlsLibrary>& libraries) {
  TlsLibrary library{object.path, {}};
  for (const auto& call : kTlsCalls) {
    if (object.elf.find(call.name)) library.functions.emplace_back(call.name);
  }
  if (library.functions.empty()) return;
  for (const auto& [plain, extended] :
       {std::pair{kTlsCalls[0], kTlsCalls[1]}, std::pair{kTlsCalls[2], kTlsCalls[3]}}) {
    if (const auto callee = shared_callee(object.elf, plain.name, extended.name)) {
      auto site = make_site(object, ProbeKind::tls_call, extended.shape,
                            std::string(plain.name) + ", " + std::string(extended.name), *callee);
      if (site.point.emulated) {
        sites.push_back(std::move(site));
        continue;
      }
    }
    for (const auto& call : {plain, extended}) {
      if (const auto symbol = object.elf.find(call.name)) {
        sites.push_back(make_site(object, ProbeKind::tls_call, call.shape, std::string(call.name),
                                  symbol->address));
      }
    }
  }
  if (const auto symbol = object.elf.find("SSL_free")) {
    sites.push_back(
        make_site(object, ProbeKind::tls_free, CallShape::none, "SSL_free", symbol->address));
  }
  libraries.push_back(std::move(library));
}

void add_libc_sites(const Object& object, std::vector<ProbeSite>& sites,
                    std::vector<ProbeSite>& blocking_sites) {
  for (const auto& call : kLibcCalls) {
    const auto symbol = object.elf.find(call.name);
    if (!symbol || !symbol->function) continue;
    sites.push_back(make_site(object, ProbeKind::libc_call, call.shape, std::string(call.name),
                              symbol->address));
    if (call.name.starts_with("recv")) {
      blocking_sites.push_back(sites.back());
      blocking_sites.back().kind = ProbeKind::read_return;
    }
  }
}

/// `files` are the mapped ones: as the process sees them, and as they can be opened, if they can.
/// A runtime that is known by name counts for more than a file that could not be looked into.
Error no_python(std::uint32_t pid, const std::string& exe,
                const std::vector<std::pair<std::string, std::string>>& files,
                const std::optional<Error>& unreadable) {
  const auto process = "process " + std::to_string(pid);
  for (const auto& [path, open_path] : files) {
    if (const auto* other = other_runtime_of(path, open_path)) {
      return Error{process + " runs " + std::string(other->name) + " (" +
                       std::string(base_name(path)) + "), whose collector gcause does not follow",
                   std::string(other->cure)};
    }
  }
  if (unreadable) return *unreadable;
  return Error{process + " (" + exe + ") is not a CPython process",
               "give the PID of the Python interpreter itself, not of its launcher or shell"};
}

ProbeSite make_function_site(const Object& object, ProbeKind kind,
                             const CollectorFunction& function) {
  auto site = make_site(object, kind, CallShape::none, function.name, function.address);
  site.ranges = function.ranges;
  return site;
}

Error no_collector(const Object& object, std::uint32_t pid, const FoundCollector& found) {
  std::string reasons;
  for (const auto& way : found.ways) reasons += (reasons.empty() ? "" : "; ") + way.result;
  return Error{"cannot find the collector in " + object.path + " of process " +
                   std::to_string(pid) + ": " + reasons,
               "use a Python build with symbols, or one configured with --with-dtrace"};
}

/// Takes over what was found: the sites and what the reports say of them.
void add_collector_sites(const Object& object, FoundCollector found, Target& target) {
  target.collector_method = *found.method;
  target.collector_ways = std::move(found.ways);
  if (found.functions.empty()) {
    target.collector_symbol = "gc__start, gc__done";
    target.collector_address = 0;
    target.sites.push_back({ProbeKind::collector_usdt,
                            CallShape::none,
                            object.path,
                            object.open_path,
                            "python:gc__start, python:gc__done",
                            {0, "nop", true},
                            0});
  } else {
    target.collector_symbol = found.functions.front().name;
    target.collector_address = found.functions.front().address;
  }
  for (const auto& function : found.functions) {
    target.sites.push_back(make_function_site(object, ProbeKind::collector, function));
  }
  for (const auto& function : found.world_stops) {
    target.sites.push_back(make_function_site(object, ProbeKind::world_stop, function));
  }
  for (const auto& function : found.world_starts) {
    target.sites.push_back(make_function_site(object, ProbeKind::world_start, function));
  }
  if (target.free_threaded.value_or(false) && found.world_stops.empty()) {
    target.notes.push_back(
        "the functions that stop and start the world are not known, as this build has no symbols "
        "for them: a pause is the whole collection, and other stops are not seen");
  }
}

/// Finds the collector in the object that holds the runtime.
Result<Ok> find_collector(const Object& object, const std::string& root,
                          const DescribeOptions& options, Target& target) {
  const auto build = python_build(object.elf, object.path);
  target.python_object = object.path;
  target.python_hex = build.hex;
  target.python_version = build.version;
  target.free_threaded = build.free_threaded;
  std::string why;
  target.layout = layout_of(object.elf, build, why);
  if (!target.layout) target.notes.push_back(why);
  target.collector_object = object.path;
  // Without the counters' layout a bracket cannot tell a return at once from a collection (3.13
  // on); the USDT pair fires for collections only.
  const bool bracket_is_exact = target.layout || (build.hex && *build.hex < 0x030d0000);
  const CollectorSearch search{object.elf,        build,           object.path, root,
                               !bracket_is_exact, options.all_ways};
  auto found = options.cache ? options.cache->find(search) : find_collector_functions(search);
  if (!found.method) return no_collector(object, target.pid, found);
  add_collector_sites(object, std::move(found), target);
  return Ok{};
}

void set_addresses(const Object& object, const Mapping& mapping, Target& target) {
  if (!target.layout) return;
  ProcessMemory memory(target.pid);
  const auto found = python_addresses(object.elf, mapping, *target.layout, memory);
  target.runtime_address = found.runtime;
  target.code_type_address = found.code_type;
}

}  // namespace

Result<Target> describe_target(const Procfs& procfs, std::uint32_t pid,
                               const DescribeOptions& options) {
  auto ticks = procfs.start_ticks(pid);
  if (!ticks) {
    return Error{
        "there is no process " + std::to_string(pid),
        "check the PID with ps; inside a container give the PID as seen there; where /proc is "
        "mounted with hidepid, run gcause as root or with CAP_SYS_PTRACE"};
  }
  if (const auto process = procfs.process_of(pid); process != pid) {
    return Error{std::to_string(pid) + " is a thread of process " + std::to_string(process),
                 "give the process: -p " + std::to_string(process)};
  }
  auto exe = procfs.exe(pid);
  if (!exe) return exe.error();
  auto mappings = procfs.executable_mappings(pid);
  if (!mappings) return mappings.error();

  Target target{};
  target.pid = pid;
  target.start_ticks = *ticks;
  target.exe = *exe;
  target.filtered_by_seccomp = procfs.filtered_by_seccomp(pid);
  std::vector<std::pair<std::string, std::string>> files;
  std::optional<Error> unreadable;
  for (const auto& mapping : *mappings) {
    auto path = procfs.open_path(pid, mapping);
    auto elf = path ? ElfFile::open(*path) : Result<ElfFile>(path.error());
    files.emplace_back(mapping.path, path ? *path : "");
    target.known_objects.insert(mapping.path);
    if (!elf) {
      if (!unreadable) unreadable = elf.error();
      target.notes.push_back(elf.error().what);
      continue;
    }
    const Object object{mapping.path, *path, *std::move(elf)};
    const auto runtime = runtime_of(object.elf, object.path);
    if (runtime == RuntimeKind::cpython && target.python_object.empty()) {
      auto found = find_collector(object, procfs.root_directory(pid), options, target);
      if (!found) return found.error();
      set_addresses(object, mapping, target);
    }
    add_tls_sites(object, target.sites, target.tls);
    if (is_libc(object.path)) add_libc_sites(object, target.sites, target.blocking_sites);
  }
  if (target.python_object.empty()) return no_python(pid, target.exe, files, unreadable);
  return target;
}

std::vector<ProbeSite> exported_sites(const ElfFile& elf, const ProbeSite& site) {
  if (site.kind != ProbeKind::tls_call || site.symbol.find(',') == std::string::npos) return {site};
  std::vector<ProbeSite> sites;
  for (const auto& call : kTlsCalls) {
    const bool of_site =
        (", " + site.symbol + ",").find(" " + std::string(call.name) + ",") != std::string::npos;
    const auto symbol = of_site ? elf.find(call.name) : std::nullopt;
    if (!symbol) continue;
    auto exported = site;
    exported.shape = call.shape;
    exported.symbol = call.name;
    place(exported, elf, symbol->address);
    sites.push_back(std::move(exported));
  }
  return sites;
}

std::vector<ProbeSite> sites_of_new_objects(const Procfs& procfs, std::uint32_t pid,
                                            Target& known) {
  std::vector<ProbeSite> sites;
  auto mappings = procfs.executable_mappings(pid);
  if (!mappings) return sites;
  for (const auto& mapping : *mappings) {
    if (!known.known_objects.insert(mapping.path).second) continue;
    auto path = procfs.open_path(pid, mapping);
    if (!path) continue;
    auto elf = ElfFile::open(*path);
    if (!elf) continue;
    const Object object{mapping.path, *path, *std::move(elf)};
    add_tls_sites(object, sites, known.tls);
    if (is_libc(object.path)) add_libc_sites(object, sites, known.blocking_sites);
  }
  return sites;
}

}  // namespace gcause
