// SPDX-License-Identifier: Apache-2.0
#include "session/doctor_facts.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "loader/features.h"
#include "session/seccomp_ends.h"
#include "target/elf_file.h"
#include "target/object_names.h"

namespace gcause {
namespace {

/// CPython's executables are called python, python3.12, python3.13t and the like.
PythonLinkage linkage_of(const Target& target) {
  const bool python = base_name(target.exe).starts_with("python");
  if (target.python_object == target.exe) {
    return python ? PythonLinkage::in_executable : PythonLinkage::embedded_static;
  }
  return python ? PythonLinkage::shared_library : PythonLinkage::embedded_shared;
}

/// Builds with Py_REF_DEBUG, which Py_DEBUG switches on, export the function that their
/// Py_DECREF calls when a count falls below zero (Include/object.h, 3.8 to 3.14).
std::optional<bool> debug_build(const Target& target) {
  const auto site = std::find_if(
      target.sites.begin(), target.sites.end(),
      [&](const ProbeSite& candidate) { return candidate.object == target.python_object; });
  if (site == target.sites.end()) return std::nullopt;
  const auto elf = ElfFile::open(site->open_path);
  if (!elf) return std::nullopt;
  return elf->find("_Py_NegativeRefcount").has_value();
}

/// "4711\t12\t1" without the number in our own namespace, which is the first.
std::string inner_pids(const Procfs& procfs, std::uint32_t pid) {
  const auto all = procfs.status_field(pid, "NSpid").value_or("");
  const auto first = all.find('\t');
  return first == std::string::npos ? std::string() : all.substr(first + 1);
}

bool differs(const Procfs& procfs, std::uint32_t pid, const std::string& kind) {
  const auto ours = procfs.name_space(static_cast<std::uint32_t>(::getpid()), kind);
  const auto theirs = procfs.name_space(pid, kind);
  return !ours.empty() && !theirs.empty() && ours != theirs;
}

std::vector<BlindSpot> blind_spots(const TargetFacts& facts,
                                   const std::map<std::string, bool>& features) {
  std::vector<BlindSpot> spots;
  const auto& target = facts.target;
  const auto readable = std::ranges::count_if(
      target.tls, [](const TlsObject& library) { return library.source != TlsSource::none; });
  if (readable == 0) {
    spots.push_back(
        {"no TLS library that can be read is loaded, so encrypted streams are not seen until one "
         "is",
         "none needed if one is loaded later: it is found as soon as it is there"});
  }
  for (const auto& library : target.tls) {
    if (library.source != TlsSource::none) continue;
    spots.push_back({library.object +
                         " speaks TLS, and neither its symbols nor its code tell where it reads: "
                         "its connections cannot be read, and are timed by TLS records at most",
                     "a build of it that keeps the symbols of its TLS library (SSL_read, SSL_write)"});
  }
  if (!target.layout && target.collector_method != CollectorMethod::usdt) {
    spots.push_back(
        {"the layout of this CPython's counters is not known: pauses carry no "
         "generation and no number of objects",
         "a release of CPython from 3.8 to 3.15"});
  }
  if (facts.children > 0) {
    spots.push_back({std::to_string(facts.children) + " child process(es) are not followed",
                     "gcause record -s follows them"});
  }
  if (facts.ends == Ends::exits) {
    spots.push_back(
        {"a seccomp filter may kill this process at a return probe on this kernel, so "
         "ends are taken at each exit of a function, and the return of a blocking "
         "read is known by the kernel's part of it only",
         "a kernel that exempts return probes: before Linux 6.11, or 6.14 and later"});
  }
  if (!features.at("sk_data_ready") && !features.at("tcp_probe")) {
    spots.push_back(
        {"no arrival times: verdicts say \"basis\": \"overlap\"", "Linux 6.3 or later"});
  }
  for (const auto& note : target.notes) spots.push_back({note, ""});
  return spots;
}

}  // namespace

Result<TargetFacts> collect_facts(const Procfs& procfs, std::uint32_t pid,
                                  std::map<std::string, bool>& features) {
  const auto begin = std::chrono::steady_clock::now();
  auto target = describe_target(procfs, pid, {.all_ways = true});
  if (!target) return target.error();
  const Ns search =
      std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now() - begin)
          .count();
  TargetFacts facts{*std::move(target),           search,
                    PythonLinkage::in_executable, std::nullopt,
                    procfs.children(pid).size(),  inner_pids(procfs, pid),
                    differs(procfs, pid, "pid"),  differs(procfs, pid, "mnt"),
                    Ends::return_probes,          {}};
  facts.linkage = linkage_of(facts.target);
  facts.debug_build = debug_build(facts.target);
  if (facts.target.filtered_by_seccomp) {
    SeccompEnds ends(features);
    if (auto safe = ends.make_safe(facts.target, facts.target.sites); !safe) return safe.error();
    const auto survive = ends.survive();
    if (survive) features[kSurvivesSeccomp] = *survive;
    if (!survive || !*survive) facts.ends = Ends::exits;
  }
  facts.blind_spots = blind_spots(facts, features);
  return facts;
}

}  // namespace gcause
