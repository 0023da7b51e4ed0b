// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>

namespace gcause {

/// A language runtime that gcause knows by name and does not follow.
struct OtherRuntime {
  std::string_view name;
  std::string_view cure;  ///< what to use in its place, as one line
};

/// The runtime that a mapped file belongs to, by its name, and for Go by what its linker leaves in
/// every program; null if it is none of those known. `open_path` leads to the file.
const OtherRuntime* other_runtime_of(std::string_view path, const std::string& open_path);

}  // namespace gcause
