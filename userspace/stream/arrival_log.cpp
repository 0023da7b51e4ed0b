// SPDX-License-Identifier: Apache-2.0
#include "stream/arrival_log.h"

#include <algorithm>

namespace gcause {

void ArrivalLog::begin(std::uint32_t sequence) {
  entries_.clear();
  known_from_ = sequence;
}

void ArrivalLog::add(std::uint32_t sequence, Ns at) {
  if (!known_from_) {
    // Bytes before this moment may have come in an arrival that was lost.
    known_from_ = sequence;
    return;
  }
  const auto newest = entries_.empty() ? *known_from_ : entries_.back().sequence;
  if (!sequence_before(newest, sequence)) return;
  entries_.push_back({sequence, at});
  if (entries_.size() > kMaxEntries) consumed(entries_.front().sequence);
}

void ArrivalLog::forget() {
  entries_.clear();
  known_from_.reset();
}

std::optional<Ns> ArrivalLog::at(std::uint32_t sequence) const {
  if (!known_from_ || !sequence_before(*known_from_, sequence)) return std::nullopt;
  const auto found = std::partition_point(
      entries_.begin(), entries_.end(),
      [&](const Entry& entry) { return sequence_before(entry.sequence, sequence); });
  if (found == entries_.end()) return std::nullopt;
  return found->at;
}

std::optional<std::uint32_t> ArrivalLog::run_end(std::uint32_t sequence) const {
  if (!known_from_) return std::nullopt;
  if (sequence_before(sequence, *known_from_)) return known_from_;
  const auto found = std::partition_point(
      entries_.begin(), entries_.end(),
      [&](const Entry& entry) { return !sequence_before(sequence, entry.sequence); });
  if (found == entries_.end()) return std::nullopt;
  return found->sequence;
}

void ArrivalLog::consumed(std::uint32_t sequence) {
  while (!entries_.empty() && !sequence_before(sequence, entries_.front().sequence)) {
    known_from_ = entries_.front().sequence;
    entries_.pop_front();
  }
}

}  // namespace gcause
