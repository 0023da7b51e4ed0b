// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "recording/timeline.h"

namespace gcause {

// Findings are what gcause says: one finding is one line of the JSON output, and the text report is
// drawn from the same ones. Times are ns of CLOCK_MONOTONIC.

enum class Verdict : std::uint8_t { gc, gc_partial, upstream, process };
enum class Basis : std::uint8_t { arrival, overlap };

struct PauseFinding {
  PauseEnded pause;
};

/// Time to first chunk, from the last byte of the request to the first delivery, and its parts.
struct FirstChunk {
  Ns time = 0;
  Ns upstream = 0;
  Ns charged = 0;
  Ns process = 0;
  Ns but_for = 0;
};

struct StreamFinding {
  StreamBegan began;
  StreamEnded ended;
  std::optional<FirstChunk> first_chunk;  ///< where request and first chunk were seen
  std::uint64_t chunks = 0;
  /// Id of the pause that stopped its thread at `cut`.
  std::optional<std::uint64_t> cut_in_pause = {};
};

struct ChunkFinding {
  ChunkRead chunk;
  Ns delivery = 0;
  /// Not known if the thread never waited again; of a written chunk, not before the next one of the
  /// stream or its end.
  std::optional<Ns> held;
  std::optional<Ns> since_source = {};  ///< from the delivery of its source
};

struct PauseCharge {
  std::uint64_t id;
  Ns charged;
};

struct GapFinding {
  std::uint64_t stream = 0;
  std::uint32_t index = 0;
  std::uint32_t pid = 0;
  std::uint32_t tid = 0;
  Ns from = 0;
  Ns to = 0;
  Ns gap = 0;
  Ns upstream = 0;
  Ns charged = 0;
  Ns process = 0;
  std::optional<Ns> cpu_wait;   ///< part of `process`, see Attribution::Process::cpu_wait
  std::optional<Ns> lock_wait;  ///< part of `process`, see Attribution::Process::lock_wait
  Ns but_for = 0;
  std::optional<Ns> held;
  bool over_budget = false;
  std::optional<Verdict> verdict;  ///< none within the budget, or where records were lost inside
  Basis basis = Basis::overlap;
  std::vector<PauseCharge> pauses;
  std::vector<std::uint64_t> exonerated;
  std::uint32_t burst = 1;
};

/// A connection whose TLS could not be read.
struct TlsUnreadFinding {
  TlsUnread connection;
  std::optional<std::string> library;  ///< the file whose code used it
};

/// Nearest-rank quantiles over all values.
struct Distribution {
  std::uint64_t count = 0;
  Ns p50 = 0;
  Ns p90 = 0;
  Ns p99 = 0;
  Ns max = 0;
};

struct PauseTotals {
  std::uint64_t count = 0;
  Ns total = 0;
  Ns max = 0;
  Ns p50 = 0;
  Ns p99 = 0;
};

/// Windows of one length end so far from each other.
inline constexpr Ns kWindowStep = 10 * kSecond;

/// The gaps of one direction that ended in one window of time, (from, to].
struct WindowFinding {
  std::uint32_t pid = 0;
  StreamDirection direction = StreamDirection::read;
  Ns from = 0;
  Ns to = 0;
  Ns news_from = 0;  ///< (news_from, to] is in no earlier window of its length
  std::uint64_t gaps = 0;
  Ns p99 = 0;
  Ns but_for_p99 = 0;
  std::optional<bool> budget_kept;   ///< none where there are too few gaps for a p99
  std::optional<bool> but_for_kept;  ///< likewise
  bool changed = false;              ///< one of the two is another than in the window before it

  Ns length() const { return to - from; }
};

/// All windows of one length and one direction.
struct WindowTotals {
  std::optional<Ns> length;  ///< none for the one that is the whole recording
  std::uint64_t count = 0;
  std::uint64_t few = 0;  ///< of them with too few gaps for a p99: not judged
  std::uint64_t broken = 0;
  std::uint64_t broken_by_collector = 0;  ///< of them kept but for the pauses
  std::optional<WindowFinding> worst;     ///< of those that are judged, by p99; the first of equals
  StreamDirection direction = StreamDirection::read;
};

/// What is said of the streams of one direction, or of all.
struct StreamTotals {
  std::uint64_t streams = 0;
  std::uint64_t chunks = 0;
  Distribution gap;
  Distribution but_for;
  Distribution first_chunk;
  Distribution first_chunk_but_for;
  std::map<Verdict, std::uint64_t> verdicts;
  std::uint64_t over_budget = 0;
  std::uint64_t unjudged = 0;        ///< gaps above budget in which records were lost: no verdict
  std::uint64_t gaps_with_loss = 0;  ///< gaps of any length in which records were lost
  bool budget_kept = true;           ///< of all: in each direction
  bool but_for_kept = true;          ///< likewise
  Distribution since_source;         ///< of written chunks that pass on one that was read

  /// How much of the gaps above the budget has no verdict; none without such gaps.
  std::optional<double> unjudged_share() const {
    const auto all = over_budget + unjudged;
    if (all == 0) return std::nullopt;
    return static_cast<double>(unjudged) / static_cast<double>(all);
  }
};

struct SummaryFinding : StreamTotals {
  std::uint32_t pid = 0;
  PauseTotals pauses;
  std::map<std::optional<std::int32_t>, PauseTotals> by_generation;
  std::map<StreamDirection, StreamTotals> by_direction;  ///< those that were seen
  std::uint64_t lost = 0;
  std::uint64_t tls_unread = 0;       ///< connections whose TLS could not be read
  std::vector<WindowTotals> windows;  ///< of each direction that was seen, or else of read
};

using Finding =
    std::variant<SessionStarted, ProcessFollowed, PauseFinding, StreamFinding, ChunkFinding,
                 GapFinding, Lost, SummaryFinding, RecordingEnded, SettingsChanged, WindowFinding,
                 TlsLibraryProbed, TlsUnreadFinding, StreamUnread>;

}  // namespace gcause
