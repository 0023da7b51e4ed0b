// SPDX-License-Identifier: Apache-2.0
#include "session/doctor_report.h"

#include <algorithm>
#include <cstdlib>

#include "loader/features.h"
#include "sink/names.h"

namespace gcause {
namespace {

std::string_view name_of(ProbeKind kind) {
  switch (kind) {
    case ProbeKind::collector:
      return "collector";
    case ProbeKind::collector_usdt:
      return "collector (USDT)";
    case ProbeKind::tls_call:
      return "tls";
    case ProbeKind::tls_free:
      return "tls end";
    case ProbeKind::world_stop:
      return "world stop";
    case ProbeKind::world_start:
      return "world start";
    case ProbeKind::read_return:
      return "read return";
    case ProbeKind::libc_call:
      return "socket call";
    case ProbeKind::library_load:
      return "library load";
  }
  std::abort();
}

std::string_view name_of(PythonLinkage linkage) {
  switch (linkage) {
    case PythonLinkage::in_executable:
      return "static";
    case PythonLinkage::shared_library:
      return "shared";
    case PythonLinkage::embedded_shared:
      return "embedded-shared";
    case PythonLinkage::embedded_static:
      return "embedded-static";
  }
  std::abort();
}

std::string_view name_of(TlsSource source) {
  switch (source) {
    case TlsSource::symbols:
      return "symbols";
    case TlsSource::code:
      return "code";
    case TlsSource::none:
      return "none";
  }
  std::abort();
}

std::string_view name_of(Ends ends) {
  switch (ends) {
    case Ends::return_probes:
      return "return-probes";
    case Ends::exits:
      return "exits";
  }
  std::abort();
}

/// libc's calls carry a bracket only where the kernel has no tracepoints for sockets.
bool is_used(const ProbeSite& site, const std::map<std::string, bool>& features) {
  return site.kind != ProbeKind::libc_call || !features.at("sock_length");
}

template <typename T>
DoctorJson or_null(const std::optional<T>& value) {
  return value ? DoctorJson(*value) : DoctorJson();
}

DoctorJson collector_report(const Target& target) {
  DoctorJson json = {
      {"method", name_of(target.collector_method)}, {"object", target.collector_object},
      {"symbol", target.collector_symbol},          {"address", target.collector_address},
      {"layout_known", target.layout.has_value()},  {"ways", DoctorJson::array()}};
  const auto site = std::find_if(target.sites.begin(), target.sites.end(), [](const auto& other) {
    return other.kind == ProbeKind::collector || other.kind == ProbeKind::collector_usdt;
  });
  if (site != target.sites.end()) {
    json["instruction"] = site->point.instruction;
    json["emulated"] = site->point.emulated;
  }
  for (const auto& way : target.collector_ways) {
    json["ways"].push_back(
        {{"method", name_of(way.method)}, {"found", way.found}, {"result", way.result}});
  }
  return json;
}

DoctorJson probes_report(const Target& target, const std::map<std::string, bool>& features) {
  auto probes = DoctorJson::array();
  for (const auto& site : target.sites) {
    if (!is_used(site, features)) continue;
    probes.push_back({{"kind", name_of(site.kind)},
                      {"object", site.object},
                      {"symbol", site.symbol},
                      {"address", site.point.address},
                      {"instruction", site.point.instruction},
                      {"emulated", site.point.emulated},
                      {"exits", site.exits.size()}});
  }
  return probes;
}

std::string text_of(const DoctorJson& value) { return value.get<std::string>(); }

/// "yes  name   what" or "NO   name   what".
void print_row(std::FILE* out, bool present, const std::string& name, const std::string& what) {
  std::fprintf(out, "  %-4s %-23s %s\n", present ? "yes" : "NO", name.c_str(), what.c_str());
}

void print_host(const DoctorJson& host, std::FILE* out) {
  std::fprintf(out, "\nfeatures\n");
  for (const auto& [name, feature] : host["features"].items()) {
    if (feature["present"].is_null()) {
      std::fprintf(out, "  %-4s %-23s %s: not tried, for want of rights\n", "?", name.c_str(),
                   text_of(feature["for"]).c_str());
      continue;
    }
    const auto otherwise = text_of(feature["without"]);
    print_row(out, feature["present"], name,
              feature["present"]
                  ? text_of(feature["for"])
                  : (otherwise.empty() ? "gcause cannot work without it" : otherwise));
  }
  std::fprintf(out, "\ncapabilities\n");
  for (const auto& [name, capability] : host["capabilities"].items()) {
    print_row(out, capability["present"], name,
              text_of(capability["for"]) + (capability["required"] ? " (required)" : ""));
  }
  if (!host["lockdown"].is_null()) {
    std::fprintf(out, "\nlockdown       %s\n", text_of(host["lockdown"]).c_str());
  }
}

std::string linkage_text(const DoctorJson& target) {
  const auto linkage = text_of(target["python"]["linkage"]);
  const auto exe = text_of(target["exe"]);
  const auto program = exe.substr(exe.rfind('/') + 1);
  if (linkage == "static") return ", statically linked";
  if (linkage == "shared") return ", a shared library";
  if (linkage == "embedded-shared") return ", a shared library embedded in " + program;
  return ", embedded in " + program;
}

void print_python(const DoctorJson& target, std::FILE* out) {
  const auto& python = target["python"];
  const auto version =
      python["version"].is_null() ? "of unknown version" : text_of(python["version"]);
  std::fprintf(out, "  executable     %s\n", text_of(target["exe"]).c_str());
  std::fprintf(out, "  CPython        %s in %s%s%s%s\n", version.c_str(),
               text_of(python["object"]).c_str(), linkage_text(target).c_str(),
               python["free_threaded"] == true ? ", free-threaded" : "",
               python["debug"] == true ? ", a debug build" : "");
  const auto& spaces = target["namespaces"];
  if (spaces["other_pid"] || spaces["other_mount"]) {
    const auto inner = text_of(spaces["inner_pids"]);
    std::fprintf(out, "  namespaces     %s%s%s\n",
                 spaces["other_pid"] ? ("its own for PIDs, where it is " + inner).c_str() : "",
                 spaces["other_pid"] && spaces["other_mount"] ? "; " : "",
                 spaces["other_mount"] ? "its own for mounts" : "");
  }
  const auto& seccomp = target["seccomp"];
  std::fprintf(out, "  seccomp        %s\n",
               !seccomp["filtered"] ? "none"
               : seccomp["ends"] == "exits"
                   ? "a filter that may kill it at return probes: ends are taken at each exit"
                   : "a filter, which return probes survive on this kernel");
}

void print_collector(const DoctorJson& target, std::FILE* out) {
  const auto& collector = target["collector"];
  std::fprintf(out, "\ncollector, found in %s\n",
               format_duration(target["search_ns"].get<Ns>()).c_str());
  for (const auto& way : collector["ways"]) {
    print_row(out, way["found"], text_of(way["method"]), text_of(way["result"]));
  }
  std::fprintf(out, "  chosen         by %s: %s in %s", text_of(collector["method"]).c_str(),
               text_of(collector["symbol"]).c_str(), text_of(collector["object"]).c_str());
  // Of USDT probes libbpf finds the addresses, and there may be several.
  if (collector["address"] != 0) {
    std::fprintf(out, " at 0x%llx",
                 static_cast<unsigned long long>(collector["address"].get<std::uint64_t>()));
  }
  if (!collector["instruction"].is_null()) {
    std::fprintf(out, "\n  probed         %s, %s", text_of(collector["instruction"]).c_str(),
                 collector["emulated"] ? "which the kernel emulates" : "single-stepped");
  }
  std::fprintf(out, "\n  layout         %s\n",
               collector["layout_known"] ? "known" : "not known: pauses are timed only");
}

void print_probe(const DoctorJson& probe, const std::string& first, std::FILE* out) {
  std::fprintf(out, "  %-16s %-28s %-9s %s", first.c_str(), text_of(probe["symbol"]).c_str(),
               probe["emulated"] ? "emulated" : "stepped", text_of(probe["instruction"]).c_str());
  if (probe["exits"] != 0) {
    std::fprintf(out, " (and %zu exits)", probe["exits"].get<std::size_t>());
  }
  std::fprintf(out, "\n");
}

bool is_tls(const DoctorJson& probe) {
  return probe["kind"] == name_of(ProbeKind::tls_call) ||
         probe["kind"] == name_of(ProbeKind::tls_free);
}

void print_tls(const DoctorJson& target, std::FILE* out) {
  std::fprintf(out, "\nTLS libraries\n");
  for (const auto& library : target["tls"]) {
    const auto source = text_of(library["source"]);
    const bool readable = source != name_of(TlsSource::none);
    std::fprintf(out, "  %-4s %s%s\n", readable ? "yes" : "NO", text_of(library["object"]).c_str(),
                 !readable            ? ": its functions are not known"
                 : library["on_use"]  ? ", found in its code once it is used"
                 : source == "code"   ? ", found in its code"
                                      : "");
    for (const auto& probe : target["probes"]) {
      if (is_tls(probe) && probe["object"] == library["object"]) print_probe(probe, "", out);
    }
  }
  if (target["tls"].empty()) std::fprintf(out, "  none\n");
}

void print_probes(const DoctorJson& target, std::FILE* out) {
  std::fprintf(out, "\nprobes\n");
  for (const auto& probe : target["probes"]) {
    if (!is_tls(probe)) print_probe(probe, text_of(probe["kind"]), out);
  }
}

}  // namespace

DoctorJson host_report(const std::map<std::string, bool>& features) {
  DoctorJson host;
  host["kernel"] = kernel_release();
  const auto lock = lockdown();
  host["lockdown"] = lock.empty() ? DoctorJson() : DoctorJson(lock);
  for (const auto& feature : known_features()) {
    const auto found = features.find(feature.name);
    host["features"][feature.name] = {
        {"present", found == features.end() ? DoctorJson() : DoctorJson(found->second)},
        {"for", feature.what},
        {"without", feature.fallback}};
  }
  for (const auto& capability : detect_capabilities()) {
    host["capabilities"][capability.name] = {{"present", capability.present},
                                             {"required", capability.required},
                                             {"for", capability.what}};
  }
  return host;
}

DoctorJson target_report(const TargetFacts& facts, const std::map<std::string, bool>& features) {
  const auto& target = facts.target;
  DoctorJson json;
  json["pid"] = target.pid;
  json["exe"] = target.exe;
  json["search_ns"] = facts.search;
  json["python"] = {{"object", target.python_object},
                    {"version", or_null(target.python_version)},
                    {"free_threaded", or_null(target.free_threaded)},
                    {"debug", or_null(facts.debug_build)},
                    {"linkage", name_of(facts.linkage)}};
  json["namespaces"] = {{"other_pid", facts.other_pid_namespace},
                        {"other_mount", facts.other_mount_namespace},
                        {"inner_pids", facts.inner_pids}};
  json["seccomp"] = {{"filtered", target.filtered_by_seccomp}, {"ends", name_of(facts.ends)}};
  json["children"] = facts.children;
  json["collector"] = collector_report(target);
  json["tls"] = DoctorJson::array();
  for (const auto& library : target.tls) {
    json["tls"].push_back({{"object", library.object},
                           {"functions", library.functions},
                           {"source", name_of(library.source)},
                           {"on_use", library.on_use}});
  }
  json["probes"] = probes_report(target, features);
  return json;
}

DoctorJson blind_spots_report(const TargetFacts& facts) {
  auto spots = DoctorJson::array();
  for (const auto& spot : facts.blind_spots) {
    spots.push_back(
        {{"what", spot.what}, {"cure", spot.cure.empty() ? DoctorJson() : DoctorJson(spot.cure)}});
  }
  return spots;
}

void print_report(const DoctorJson& report, std::FILE* out) {
  std::fprintf(out, "gcause %s, kernel %s\n", text_of(report["gcause"]).c_str(),
               text_of(report["host"]["kernel"]).c_str());
  print_host(report["host"], out);
  if (!report.contains("target")) return;
  const auto& target = report["target"];
  std::fprintf(out, "\nprocess %u\n", target["pid"].get<unsigned>());
  print_python(target, out);
  print_collector(target, out);
  print_tls(target, out);
  print_probes(target, out);
  if (!report["blind_spots"].empty()) std::fprintf(out, "\nwhat will not be seen\n");
  for (const auto& spot : report["blind_spots"]) {
    std::fprintf(out, "  %s\n", text_of(spot["what"]).c_str());
    if (!spot["cure"].is_null()) std::fprintf(out, "    cure: %s\n", text_of(spot["cure"]).c_str());
  }
}

}  // namespace gcause
