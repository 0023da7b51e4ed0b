// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "util/time.h"

namespace gcause::test {

// The files of tests/cases; tests/cases/README.md says what stands in them. What they say wrong is
// told by an exception, which fails the test.

using Json = nlohmann::ordered_json;

/// Bytes of a case: text, {"hex": ..}, {"framed": ..}, {"framed_bytes": ..}, {"times": n, "of": ..}, or
/// a list of them.
std::string bytes_of(const Json& json);

/// Milliseconds of a case, which may be fractions, as nanoseconds.
Ns ns_of(const Json& json);

/// A list in which an element may stand for several: [value, count].
std::vector<Ns> times_of(const Json& json);

/// The runs of a file, each with the name of its case in front of its own. One whose reads are to be
/// cut everywhere becomes one run for each cut.
std::vector<Json> runs_of(const std::string& path);

/// The paths of all case files, sorted.
std::vector<std::string> case_files();

}  // namespace gcause::test
