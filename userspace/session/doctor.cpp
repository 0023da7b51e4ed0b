// SPDX-License-Identifier: Apache-2.0
#include "session/doctor.h"

#include <cstdio>
#include <optional>

#include "loader/features.h"
#include "session/doctor_facts.h"
#include "session/doctor_report.h"
#include "session/seccomp_ends.h"
#include "target/procfs.h"
#include "version.h"

namespace gcause {

Result<int> doctor(const DoctorOptions& options) {
  auto features = detect_features(options.without);
  std::optional<Error> failure;
  std::optional<TargetFacts> facts;
  if (options.pid) {
    auto collected = collect_facts(Procfs(), *options.pid, features);
    if (collected) {
      facts = *std::move(collected);
    } else {
      failure = collected.error();
    }
  }
  // Before what is wrong with the process comes what no process could be recorded without.
  if (auto fulfilled = check_requirements(features); !fulfilled) failure = fulfilled.error();

  // Without the rights to try it nothing is said of it.
  if (const auto survive = SeccompEnds(features).survive()) features[kSurvivesSeccomp] = *survive;

  DoctorJson report;
  report["gcause"] = kVersion;
  report["host"] = host_report(features);
  if (facts) {
    report["target"] = target_report(*facts, features);
    report["blind_spots"] = blind_spots_report(*facts);
  }
  if (options.json) {
    if (failure) report["error"] = {{"what", failure->what}, {"cure", failure->cure}};
    std::printf("%s\n", report.dump(2, ' ', false, DoctorJson::error_handler_t::replace).c_str());
  } else {
    print_report(report, stdout);
  }
  std::fflush(stdout);
  if (failure) return *failure;
  return 0;
}

}  // namespace gcause
