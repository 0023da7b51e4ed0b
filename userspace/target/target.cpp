// SPDX-License-Identifier: Apache-2.0
#include "target/target.h"

#include <algorithm>
#include <array>
#include <iterator>
#include <set>

#include "target/collector_cache.h"
#include "target/collector_finder.h"
#include "target/elf_file.h"
#include "target/object_names.h"
#include "target/process_memory.h"
#include "target/python.h"
#include "target/python_process.h"
#include "target/runtimes.h"

namespace gcause {
namespace {

struct NamedCall {
  std::string_view name;
  CallShape shape;
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

void add_libc_sites(const MappedObject& object, std::vector<ProbeSite>& sites,
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

/// The dynamic linker tells debuggers of every change by a call of an empty function (r_brk of
/// link.h).
void add_linker_site(const MappedObject& object, std::vector<ProbeSite>& sites) {
  const auto symbol = object.elf.find("_dl_debug_state");
  if (!symbol || !symbol->function) return;
  sites.push_back(make_site(object, ProbeKind::library_load, CallShape::none, "_dl_debug_state",
                            symbol->address));
}

/// Puts the probes of a TLS library in `object` with the others. False where there is none.
bool add_tls(const MappedObject& object, bool in_code, Target& target,
             std::vector<ProbeSite>& sites) {
  auto probes = tls_probes_of(object, in_code);
  if (!probes) return false;
  target.tls.push_back(std::move(probes->library));
  std::ranges::move(probes->sites, std::back_inserter(sites));
  return true;
}

/// A TLS library without symbols, of which a recording learns when it is used.
void add_silent_tls(const MappedObject& object, Target& target) {
  if (!speaks_tls(object.elf)) return;
  if (add_tls(object, true, target, target.sites)) {
    target.tls.back().on_use = true;
  } else {
    target.tls.push_back({object.path, TlsSource::none, {}});
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

ProbeSite make_function_site(const MappedObject& object, ProbeKind kind,
                             const CollectorFunction& function) {
  auto site = make_site(object, kind, CallShape::none, function.name, function.address);
  site.ranges = function.ranges;
  return site;
}

Error no_collector(const MappedObject& object, std::uint32_t pid, const FoundCollector& found) {
  std::string reasons;
  for (const auto& way : found.ways) reasons += (reasons.empty() ? "" : "; ") + way.result;
  return Error{"cannot find the collector in " + object.path + " of process " +
                   std::to_string(pid) + ": " + reasons,
               "use a Python build with symbols, or one configured with --with-dtrace"};
}

/// Takes over what was found: the sites and what the reports say of them.
void add_collector_sites(const MappedObject& object, FoundCollector found, Target& target) {
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
Result<Ok> find_collector(const MappedObject& object, const std::string& root,
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

Result<MappedObject> open_object(const Procfs& procfs, std::uint32_t pid, const Mapping& mapping) {
  auto path = procfs.open_path(pid, mapping);
  if (!path) return path.error();
  auto elf = ElfFile::open(*path);
  if (!elf) return elf.error();
  return MappedObject{mapping.path, *path, *std::move(elf)};
}

void set_addresses(const MappedObject& object, const Mapping& mapping, Target& target) {
  if (!target.layout) return;
  ProcessMemory memory(target.pid);
  const auto found = python_addresses(object.elf, mapping, *target.layout, memory);
  target.runtime_address = found.runtime;
  target.code_type_address = found.code_type;
  check_generations(target);
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
  const auto code_bytes = procfs.code_bytes(pid);
  auto mappings = procfs.executable_mappings(pid);
  if (!mappings) return mappings.error();

  Target target{};
  target.pid = pid;
  target.start_ticks = *ticks;
  target.exe = *exe;
  target.code_bytes = code_bytes;
  target.filtered_by_seccomp = procfs.filtered_by_seccomp(pid);
  std::vector<std::pair<std::string, std::string>> files;
  std::optional<Error> unreadable;
  for (const auto& mapping : *mappings) {
    const auto opened = open_object(procfs, pid, mapping);
    files.emplace_back(mapping.path, opened ? opened->open_path : "");
    target.known_objects.emplace(mapping);
    if (!opened) {
      if (!unreadable) unreadable = opened.error();
      target.notes.push_back(opened.error().what);
      continue;
    }
    const MappedObject& object = *opened;
    const auto runtime = runtime_of(object.elf, object.path);
    if (runtime == RuntimeKind::cpython && target.python_object.empty()) {
      auto found = find_collector(object, procfs.root_directory(pid), options, target);
      if (!found) return found.error();
      set_addresses(object, mapping, target);
    }
    const bool in_code = runtime == RuntimeKind::cpython || is_ssl_module(object.path);
    if (!add_tls(object, in_code, target, target.sites) && options.all_ways) {
      add_silent_tls(object, target);
    }
    if (is_libc(object.path)) add_libc_sites(object, target.sites, target.blocking_sites);
    if (is_dynamic_linker(object.path)) add_linker_site(object, target.sites);
  }
  if (target.python_object.empty()) return no_python(pid, target.exe, files, unreadable);
  return target;
}

void check_generations(Target& target) {
  if (!target.layout || target.runtime_address == 0) return;
  ProcessMemory memory(target.pid);
  switch (find_generations(target.runtime_address, *target.layout, memory)) {
    case Generations::not_set_up:
      return;
    case Generations::found:
      break;
    case Generations::unknown:
      target.notes.push_back(
          "the collector's generations are not where this version has them: the reason of a pause "
          "and the collector's settings are not known");
      break;
  }
  target.generations_checked = true;
}

bool is_known_tls(const Target& target, const Mapping& mapping) {
  return std::ranges::any_of(
      target.tls, [&](const TlsObject& library) { return library.object == mapping.path; });
}

std::vector<ProbeSite> sites_of_new_objects(const Procfs& procfs, Target& target) {
  std::vector<ProbeSite> sites;
  auto mappings = procfs.executable_mappings(target.pid);
  if (!mappings) return sites;
  for (const auto& mapping : *mappings) {
    if (!target.known_objects.emplace(mapping).second) continue;
    const auto object = open_object(procfs, target.pid, mapping);
    if (!object) continue;
    add_tls(*object, is_ssl_module(object->path), target, sites);
    if (is_libc(object->path)) add_libc_sites(*object, sites, target.blocking_sites);
  }
  return sites;
}

std::vector<ProbeSite> sites_in_code(const Procfs& procfs, const Mapping& mapping, Target& target) {
  std::vector<ProbeSite> sites;
  const auto object = open_object(procfs, target.pid, mapping);
  if (object) add_tls(*object, true, target, sites);
  return sites;
}

}  // namespace gcause
