// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "util/result.h"
#include "util/time.h"

namespace gcause {

enum class Format : std::uint8_t { text, jsonl, recording };

struct OutputSpec {
  Format format = Format::text;
  std::string path = "-";  ///< "-" is standard output
};

struct RecordOptions {
  std::optional<std::uint32_t> pid;
  std::vector<std::string> command;  ///< started and followed, where no pid is given
  std::optional<Ns> duration;
  Ns budget = 100 * kMillisecond;
  std::vector<OutputSpec> outputs = {{}};
  bool subprocesses = false;
  bool chunks = false;
  bool check = false;
  bool verbose = false;           ///< says at the end what came from the kernel
  Ns trigger = kMillisecond;      ///< a pause of at least this length has its trigger read
  std::set<std::string> without;  ///< kernel features to be treated as absent
  std::uint32_t ring_bytes = 4 << 20;
  std::string raw_capture;  ///< file for the kernel's records, payload included; tests only
};

/// Attaches, records until the end, and writes what was asked for. Returns the exit code of the
/// process: 0, or 3 where `check` finds the budget broken because of the collector.
Result<int> record(const RecordOptions& options);

}  // namespace gcause
