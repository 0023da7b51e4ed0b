// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "attribution/finding.h"

namespace gcause {

// The words that the output contract fixes for each value; every sink says the same ones.

std::string_view name_of(StreamDirection direction);
std::string_view name_of(StreamProtocol protocol);
std::string_view name_of(StreamEnd end);
std::string_view name_of(StreamFormat format);
std::string_view name_of(UnreadFormat format);
std::string_view name_of(Undecoded why);
std::string_view name_of(PauseKind kind);
std::string_view name_of(PauseReason reason);
std::string_view name_of(CollectorMethod method);
std::string_view name_of(Verdict verdict);
std::string_view name_of(Basis basis);

}  // namespace gcause
