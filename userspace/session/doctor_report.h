// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>

#include "session/doctor_facts.h"

namespace gcause {

using DoctorJson = nlohmann::ordered_json;

/// What this host has, as docs/doctor.md tells it.
DoctorJson host_report(const std::map<std::string, bool>& features);

/// What is known of a process, likewise.
DoctorJson target_report(const TargetFacts& facts, const std::map<std::string, bool>& features);

/// The blind spots of a process, likewise.
DoctorJson blind_spots_report(const TargetFacts& facts);

/// The same for people. `report` holds "gcause" and "host", and may hold "target" and
/// "blind_spots".
void print_report(const DoctorJson& report, std::FILE* out);

}  // namespace gcause
