// SPDX-License-Identifier: Apache-2.0
#include "target/layout.h"

#include <array>

namespace gcause {
namespace {

constexpr std::uint32_t kMinor = 0xffff0000;

struct Row {
  std::uint32_t minor;           ///< PY_VERSION_HEX without patch level
  std::uint32_t interpreter_gc;  ///< offsetof(PyInterpreterState, gc)
};

constexpr std::array kRows = {
    Row{0x03090000, 616}, Row{0x030a0000, 616},  Row{0x030b0000, 648},
    Row{0x030c0000, 112}, Row{0x030d0000, 7400},
};

}  // namespace

std::optional<python_layout> layout_of(const ElfFile&, const PythonBuild& build, std::string& why) {
  for (const auto& row : kRows) {
    if (!build.hex || (*build.hex & kMinor) != row.minor) continue;
    python_layout layout = {};
    layout.thread_interpreter = 16;
    layout.interpreter_gc = row.interpreter_gc;
    layout.gc_stats = 128;
    return layout;
  }
  why = "the layout of this CPython is not known";
  return std::nullopt;
}

}  // namespace gcause
