// SPDX-License-Identifier: Apache-2.0
#include "session/doctor.h"

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "loader/features.h"
#include "sink/names.h"
#include "target/procfs.h"
#include "target/target.h"
#include "version.h"

namespace gcause {
namespace {

using Json = nlohmann::ordered_json;

const char* name_of(ProbeKind kind) {
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
  }
  return "?";
}

/// libc's calls carry a bracket only where the kernel has no tracepoints for sockets.
bool is_used(const ProbeSite& site, const std::map<std::string, bool>& features) {
  return site.kind != ProbeKind::libc_call || !features.at("sock_length");
}

Json host_json(const std::map<std::string, bool>& features) {
  Json host;
  host["kernel"] = kernel_release();
  for (const auto& feature : known_features()) {
    host["features"][feature.name] = {{"present", features.at(feature.name)},
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

Json target_json(const Target& target, const std::map<std::string, bool>& features) {
  Json json;
  json["pid"] = target.pid;
  json["exe"] = target.exe;
  json["python"] = {{"object", target.python_object},
                    {"version", target.python_version ? Json(*target.python_version) : Json()},
                    {"free_threaded", target.free_threaded ? Json(*target.free_threaded) : Json()}};
  json["collector"] = {{"method", name_of(target.collector_method)},
                       {"object", target.collector_object},
                       {"symbol", target.collector_symbol},
                       {"address", target.collector_address},
                       {"counters_known", target.layout.has_value()}};
  json["tls"] = Json::array();
  for (const auto& library : target.tls) {
    json["tls"].push_back({{"object", library.object}, {"functions", library.functions}});
  }
  json["probes"] = Json::array();
  for (const auto& site : target.sites) {
    if (!is_used(site, features)) continue;
    json["probes"].push_back({{"kind", name_of(site.kind)},
                              {"object", site.object},
                              {"symbol", site.symbol},
                              {"address", site.point.address},
                              {"instruction", site.point.instruction},
                              {"emulated", site.point.emulated}});
  }
  json["notes"] = target.notes;
  return json;
}

/// What a recording of this target will not see, with the cure.
std::vector<std::string> blind_spots(const Target& target,
                                     const std::map<std::string, bool>& features) {
  std::vector<std::string> spots;
  if (target.tls.empty()) {
    spots.push_back(
        "no TLS library with readable symbols is loaded: encrypted streams are seen only once one "
        "is (libraries loaded later are found within a second)");
  }
  if (!target.layout && target.collector_method != CollectorMethod::usdt) {
    spots.push_back(
        "the layout of this CPython's counters is not known: pauses carry no "
        "generation and no number of objects");
  }
  if (!features.at("sk_data_ready")) {
    spots.push_back(
        "no arrival times: verdicts say \"basis\": \"overlap\"; use Linux 6.3 or later");
  }
  return spots;
}

void print_text(const Json& report) {
  std::printf("gcause %s, kernel %s\n\nfeatures\n", kVersion,
              report["host"]["kernel"].get<std::string>().c_str());
  for (const auto& [name, feature] : report["host"]["features"].items()) {
    const bool present = feature["present"];
    const auto otherwise = feature["without"].get<std::string>();
    std::printf("  %-4s %-20s %s\n", present ? "yes" : "NO", name.c_str(),
                present
                    ? feature["for"].get<std::string>().c_str()
                    : (otherwise.empty() ? "gcause cannot work without it" : otherwise.c_str()));
  }
  std::printf("\ncapabilities\n");
  for (const auto& [name, capability] : report["host"]["capabilities"].items()) {
    std::printf("  %-4s %-20s %s%s\n", capability["present"] ? "yes" : "NO", name.c_str(),
                capability["for"].get<std::string>().c_str(),
                capability["required"] ? " (required)" : "");
  }
  if (!report.contains("target")) return;
  const auto& target = report["target"];
  const auto& collector = target["collector"];
  std::printf("\nprocess %u\n", target["pid"].get<unsigned>());
  std::printf("  executable   %s\n", target["exe"].get<std::string>().c_str());
  std::printf("  CPython      %s in %s%s\n",
              target["python"]["version"].is_null()
                  ? "of unknown version"
                  : target["python"]["version"].get<std::string>().c_str(),
              target["python"]["object"].get<std::string>().c_str(),
              target["python"]["free_threaded"] == true ? ", free-threaded" : "");
  std::printf("  collector    by %s: %s in %s at 0x%llx\n",
              collector["method"].get<std::string>().c_str(),
              collector["symbol"].get<std::string>().c_str(),
              collector["object"].get<std::string>().c_str(),
              static_cast<unsigned long long>(collector["address"].get<std::uint64_t>()));
  for (const auto& library : target["tls"]) {
    std::printf("  TLS          %s (%zu functions)\n", library["object"].get<std::string>().c_str(),
                library["functions"].size());
  }
  std::printf("\nprobes\n");
  for (const auto& probe : target["probes"]) {
    std::printf("  %-17s %-28s %-12s %s\n", probe["kind"].get<std::string>().c_str(),
                probe["symbol"].get<std::string>().c_str(),
                probe["emulated"] ? "emulated" : "stepped",
                probe["instruction"].get<std::string>().c_str());
  }
  if (!report["blind_spots"].empty()) std::printf("\nwhat will not be seen\n");
  for (const auto& spot : report["blind_spots"]) {
    std::printf("  %s\n", spot.get<std::string>().c_str());
  }
}

}  // namespace

Result<int> doctor(const DoctorOptions& options) {
  const auto features = detect_features({});
  Json report;
  report["gcause"] = kVersion;
  report["host"] = host_json(features);
  std::optional<Error> failure;
  if (options.pid) {
    auto target = describe_target(Procfs(), *options.pid, {.all_ways = true});
    if (target) {
      report["target"] = target_json(*target, features);
      report["blind_spots"] = blind_spots(*target, features);
    } else {
      failure = target.error();
    }
  }
  if (auto fulfilled = check_requirements(features); !fulfilled && !failure) {
    failure = fulfilled.error();
  }
  if (options.json) {
    if (failure) report["error"] = {{"what", failure->what}, {"cure", failure->cure}};
    std::printf("%s\n", report.dump(2, ' ', false, Json::error_handler_t::replace).c_str());
  } else {
    print_text(report);
  }
  std::fflush(stdout);
  if (failure) return *failure;
  return 0;
}

}  // namespace gcause
