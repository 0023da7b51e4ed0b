// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "util/result.h"

namespace gcause {

/// A thing that a kernel has or has not. Features are asked for, never derived from a version.
struct FeatureInfo {
  std::string name;
  std::string what;      ///< what gcause does with it
  std::string fallback;  ///< what happens without it; empty if gcause cannot work without it
};

/// Every feature that gcause knows, in the order in which the doctor lists them.
const std::vector<FeatureInfo>& known_features();

/// The one feature that is tried only where it matters, as trying it takes a process:
/// return_probes_survive_seccomp().
inline constexpr const char* kSurvivesSeccomp = "uretprobe_seccomp";

/// Which features this kernel has; `without` names those to be treated as absent, so that a
/// fallback can be tested on a kernel that does not need it. Of kSurvivesSeccomp nothing is said
/// unless `without` names it.
std::map<std::string, bool> detect_features(const std::set<std::string>& without);

/// A capability that gcause needs and does not have, or could use.
struct CapabilityInfo {
  std::string name;
  std::string what;
  bool required;
  bool present;
};

/// The effective capabilities of this process that matter here.
std::vector<CapabilityInfo> detect_capabilities();

/// "none", "integrity" or "confidentiality"; empty where the kernel does not say.
std::string lockdown();

/// Fails with the first thing that is missing: a capability, kernel BTF, uprobes.
Result<> check_requirements(const std::map<std::string, bool>& features);

/// "6.12.1-amd64": the running kernel.
std::string kernel_release();

}  // namespace gcause
