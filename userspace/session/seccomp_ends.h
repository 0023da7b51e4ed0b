// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "target/target.h"
#include "util/result.h"

namespace gcause {

/// Decides for each process how the ends of its calls are taken: by return probes, or, where these
/// might have a seccomp filter kill it, at the exits of the functions.
class SeccompEnds {
 public:
  /// `features` as detect_features() gave them.
  explicit SeccompEnds(const std::map<std::string, bool>& features);

  /// Makes `sites` of `target` safe to attach. Fails where there is no safe way.
  Result<> make_safe(Target& target, std::vector<ProbeSite>& sites);

  /// Whether return probes survive a filter on this kernel; tried when first asked.
  Result<bool> survive();

 private:
  std::optional<bool> survive_;
};

}  // namespace gcause
