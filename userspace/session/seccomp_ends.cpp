// SPDX-License-Identifier: Apache-2.0
#include "session/seccomp_ends.h"

#include "loader/features.h"
#include "loader/seccomp_feature.h"
#include "target/function_exits.h"

namespace gcause {

SeccompEnds::SeccompEnds(const std::map<std::string, bool>& features) {
  const auto told = features.find(kSurvivesSeccomp);
  if (told != features.end()) survive_ = told->second;
}

Result<bool> SeccompEnds::survive() {
  if (!survive_) {
    auto tried = return_probes_survive_seccomp();
    if (!tried) return tried;
    survive_ = *tried;
  }
  return *survive_;
}

Result<> SeccompEnds::make_safe(Target& target, std::vector<ProbeSite>& sites) {
  if (!target.filtered_by_seccomp) return Ok{};
  auto safe = survive();
  if (!safe) {
    return Error{"process " + std::to_string(target.pid) +
                     " runs under a seccomp filter: " + safe.error().what,
                 safe.error().cure};
  }
  if (*safe) return Ok{};
  target.blocking_sites.clear();
  return take_ends_at_exits(target, sites);
}

}  // namespace gcause
