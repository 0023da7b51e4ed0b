// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace gcause {

/// Keeps what libbpf says from standard error, and remembers its warnings: they explain far better
/// than errno.
void collect_libbpf_warnings();

/// The first warning since `collect_libbpf_warnings` was called; empty if there was none.
std::string first_libbpf_warning();

}  // namespace gcause
