// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <variant>
#include <vector>

#include "attribution/attribution.h"

namespace gcause::test {

constexpr Ns ms(Ns count) { return count * kMillisecond; }

/// All findings of one type, in the order in which they left.
template <typename F>
std::vector<F> only(const std::vector<Finding>& findings) {
  std::vector<F> found;
  for (const auto& finding : findings) {
    if (const auto* wanted = std::get_if<F>(&finding)) found.push_back(*wanted);
  }
  return found;
}

/// Feeds a timeline of one process (pid 1) to attribution and keeps what it says. Calls stand in
/// the order of time. The reading thread is `kReader` where none is named.
class Court {
 public:
  static constexpr std::uint32_t kPid = 1;
  static constexpr std::uint32_t kReader = 10;
  static constexpr std::uint32_t kOther = 20;
  static constexpr std::uint32_t kThird = 30;

  explicit Court(Ns budget = ms(100), std::optional<Ns> override_budget = std::nullopt)
      : attribution_([this](const Finding& f) { findings.push_back(f); }, override_budget) {
    attribution_.consume(SessionStarted{"test", 0, 0, budget, "test", {}});
    ProcessFollowed followed{};
    followed.pid = kPid;
    attribution_.consume(followed);
    findings.clear();
  }

  Court& stream(std::uint64_t id, std::optional<Ns> request_end = std::nullopt) {
    StreamBegan began{};
    began.id = id;
    began.pid = kPid;
    began.request_end = request_end;
    return take(began);
  }

  Court& chunk(std::uint64_t stream, Ns read, std::optional<Ns> arrival = std::nullopt,
               std::uint32_t tid = kReader) {
    return take(ChunkRead{stream, next_index_[stream]++, kPid, tid, 8, read, arrival});
  }

  Court& written_stream(std::uint64_t id, std::optional<Ns> request_end = std::nullopt) {
    StreamBegan began{};
    began.id = id;
    began.pid = kPid;
    began.direction = StreamDirection::write;
    began.request_end = request_end;
    return take(began);
  }

  /// A chunk of a written stream that passes on `source`.
  Court& passes_on(std::uint64_t stream, Ns at, ChunkPlace source,
                   std::optional<Ns> arrival = std::nullopt, std::uint32_t tid = kReader) {
    ChunkRead chunk{stream, next_index_[stream]++, kPid, tid, 8, at, arrival};
    chunk.source = source;
    return take(chunk);
  }

  Court& pause_begins(std::uint32_t tid, Ns at) { return take(PauseBegan{at, kPid, tid}); }

  /// Ids count from 1, in the order of the ends.
  Court& pause_ends(std::uint32_t tid, Ns begin, Ns end,
                    std::optional<std::int32_t> generation = 2) {
    PauseEnded ended{};
    ended.id = ++pauses_;
    ended.pid = kPid;
    ended.tid = tid;
    ended.generation = generation;
    ended.begin = begin;
    ended.end = end;
    return take(ended);
  }

  Court& pause(std::uint32_t tid, Ns begin, Ns end, std::optional<std::int32_t> generation = 2) {
    return pause_begins(tid, begin).pause_ends(tid, begin, end, generation);
  }

  Court& pause_cancelled(std::uint32_t tid, Ns begin) {
    PauseEnded ended{};
    ended.pid = kPid;
    ended.tid = tid;
    ended.begin = ended.end = begin;
    return take(ended);
  }

  Court& wait(Ns at, std::uint32_t tid = kReader) { return take(WaitBegan{at, kPid, tid}); }
  Court& slept_for_lock(Ns begin, Ns end, std::uint32_t tid = kReader) {
    return take(LockWaited{begin, end, kPid, tid});
  }
  Court& lost(Ns from, Ns to, std::optional<std::uint32_t> pid = std::nullopt) {
    return take(Lost{pid, "ring", 1, from, to});
  }
  Court& stream_ends(std::uint64_t id, Ns at) {
    return take(StreamEnded{id, kPid, at, StreamEnd::done, std::nullopt, 0, 0});
  }
  Court& stream_is_cut(std::uint64_t id, Ns at, Ns cut, StreamEnd end = StreamEnd::reset) {
    return take(StreamEnded{id, kPid, at, end, std::nullopt, 0, 0, cut});
  }
  Court& end(Ns at = ms(1'000'000)) {
    take(RecordingEnded{at});
    attribution_.finish();
    return *this;
  }
  Court& take(const TimelineEvent& event) {
    attribution_.consume(event);
    return *this;
  }

  std::vector<GapFinding> gaps() const { return only<GapFinding>(findings); }
  std::vector<ChunkFinding> chunks() const { return only<ChunkFinding>(findings); }

  /// The gap in front of this chunk; there must be exactly one such finding.
  GapFinding gap(std::uint64_t stream, std::uint32_t index) const {
    std::vector<GapFinding> found;
    for (const auto& gap : gaps()) {
      if (gap.stream == stream && gap.index == index) found.push_back(gap);
    }
    REQUIRE(found.size() == 1);
    return found[0];
  }

  SummaryFinding summary() const {
    const auto summaries = only<SummaryFinding>(findings);
    REQUIRE(summaries.size() == 1);
    return summaries[0];
  }

  const Progress& progress() const { return attribution_.progress(); }

  std::vector<Finding> findings;

 private:
  Attribution attribution_;
  std::map<std::uint64_t, std::uint32_t> next_index_;
  std::uint64_t pauses_ = 0;
};

inline std::map<std::uint64_t, Ns> charges(const GapFinding& gap) {
  std::map<std::uint64_t, Ns> by_id;
  for (const auto& charge : gap.pauses) by_id[charge.id] += charge.charged;
  return by_id;
}

}  // namespace gcause::test
