// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "attribution/finding.h"
#include "sink/text_triggers.h"

namespace gcause {

// What the text report is drawn from, once everything is collected.

/// The part of a pause that the report names; there can be millions of them.
struct PauseRecord {
  std::uint64_t id;
  Ns wall;
  std::optional<Ns> cpu;
  std::optional<std::int32_t> generation;
  PauseKind kind;
  std::optional<PauseReason> reason;
};

/// What the pauses of one generation did beside taking time.
struct CollectorWork {
  std::uint64_t pauses = 0;
  std::uint64_t collected_known = 0;  ///< pauses that told how many objects they collected
  std::int64_t collected = 0;         ///< and their sum
  std::uint64_t cpu_known = 0;
  Ns cpu = 0;
};

/// Gaps with the verdict process in which most of the process's part was one kind of waiting.
struct ProcessWaits {
  std::uint64_t gaps = 0;
  Ns process = 0;  ///< sum of their process's parts
  Ns waited = 0;   ///< and of the waiting

  void add(Ns process_part, Ns waiting) {
    ++gaps;
    process += process_part;
    waited += waiting;
  }
};

/// Bodies of one kind that were not read.
struct UnreadBodies {
  std::uint64_t count = 0;
  std::uint64_t reads = 0;
  Ns longest_silence = 0;
};

struct BodyTotals {
  std::map<StreamDirection, std::uint64_t> calls;  ///< of all streams, where that is known
  std::map<std::string, UnreadBodies> undecoded;   ///< by coding, and why
  std::map<std::string, UnreadBodies> unread;      ///< what is no event stream, by its format
};

struct StreamRecord {
  std::uint64_t id = 0;
  StreamDirection direction = StreamDirection::read;
  std::optional<std::string> host;
  std::optional<std::string> model;
  std::uint64_t chunks = 0;
  StreamEnd end = StreamEnd::open;
  std::optional<std::uint64_t> cut_in_pause;  ///< id
  Ns worst_gap = 0;
  Ns above_budget = 0;  ///< sum of what its gaps exceed the budget by
};

struct ProcessReport {
  std::uint32_t pid = 0;
  std::optional<ProcessFollowed> process;
  std::optional<CollectorSettings> gc;      ///< of the main interpreter, as first seen
  std::optional<CollectorSettings> gc_now;  ///< and as last seen, where they were changed
  std::uint64_t gc_changes = 0;
  std::optional<SummaryFinding> summary;
  std::vector<PauseRecord> pauses;
  std::map<std::optional<std::int32_t>, CollectorWork> work;  ///< by generation
  TriggerTable triggers;
  std::unordered_map<std::uint64_t, StreamRecord> streams;  ///< by id
  BodyTotals bodies;
  std::vector<GapFinding> worst;  ///< above the budget, the worst first, at most kWorstGaps
  /// What gaps above the budget charge to each pause, by its id.
  std::unordered_map<std::uint64_t, Ns> charged;
  ProcessWaits no_cpu;
  ProcessWaits no_lock;                  ///< for the interpreter lock
  std::vector<TlsUnreadFinding> unread;  ///< those with most records first, at most kUnreadShown
  std::map<std::string, std::uint64_t> lost;  ///< records by where they were lost
  /// Windows that broke the budget, by direction and length.
  std::map<std::pair<StreamDirection, Ns>, std::vector<WindowFinding>> broken;
};

struct TextReport {
  std::optional<SessionStarted> session;
  std::vector<ProcessReport> processes;
  std::map<std::string, std::uint64_t> lost;  ///< of no known process
  Ns start = 0;                               ///< the instant that gaps count from
  std::optional<Ns> duration;                 ///< of the recording
};

/// The rows that each list of the report has at most.
inline constexpr std::size_t kWorstGaps = 10;
inline constexpr std::size_t kWorstStreams = 10;
inline constexpr std::size_t kUnreadShown = 10;

/// Draws the report: plain text of at most `width` columns where the content allows it, the same
/// with SGR sequences around some words if `color`. The same report gives the same text. Sorts the
/// pauses of `report`.
std::string render_report(TextReport& report, std::size_t width, bool color);

}  // namespace gcause
