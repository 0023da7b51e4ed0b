// SPDX-License-Identifier: Apache-2.0
#include "stream/tls_match.h"

#include <algorithm>

namespace gcause {
namespace {

/// Whether a record may be longer than its plaintext by `over` bytes: an authentication tag of 16
/// bytes; one byte of type in TLS 1.3 (RFC 8446, section 5.2); 8 bytes of nonce with AES-GCM in TLS
/// 1.2 (RFC 5288, section 3). Nothing in between: the SETTINGS of HTTP/2 that come first are nearly
/// as long as the Finished in front of them, and one wrong constant leads to more.
bool is_overhead(std::int64_t over) { return over == 16 || over == 17 || over == 24; }

constexpr std::uint32_t kTls13Overhead = 17;

constexpr Ns kAgree = kMillisecond;  ///< arrivals this close are one

}  // namespace

void TlsMatch::offer(std::uint64_t socket, std::uint64_t from) {
  candidates_.push_back({socket, from, std::nullopt, 0, std::nullopt, 0});
}

void TlsMatch::withdraw(std::uint64_t socket) {
  std::erase_if(candidates_,
                [&](const Candidate& candidate) { return candidate.socket == socket; });
}

bool TlsMatch::fits(Candidate& candidate, std::uint64_t count, const TlsRecordLog& log) {
  if (candidate.left > 0) {
    if (count > candidate.left) return false;
    candidate.left -= count;
    return true;
  }
  candidate.next = std::max(candidate.next, log.first());
  while (candidate.next < log.end()) {
    const auto& record = log.at(candidate.next++);
    const auto over = static_cast<std::int64_t>(record.length) - static_cast<std::int64_t>(count);
    // In TLS 1.3 the handshake looks like data, too, and what is near the length is not enough.
    const bool cipher = log.is_tls13() ? over == kTls13Overhead : is_overhead(over);
    const bool whole = record.data && cipher &&
                       (!candidate.overhead || *candidate.overhead == over);
    // A program with a small buffer takes a record in parts; then the cipher is known already.
    const bool part = record.data && candidate.overhead && over > *candidate.overhead;
    if (!whole && !part) {
      // Session tickets and alerts look like data from outside and hand over nothing. They come
      // before the first data, or now and then; a certain socket is not given up for one.
      if (candidate.matches >= kCertainAfter || !candidate.overhead) continue;
      return false;
    }
    if (whole) candidate.overhead = static_cast<std::uint32_t>(over);
    candidate.left = part ? static_cast<std::uint64_t>(over) - *candidate.overhead : 0;
    candidate.arrival = record.arrival;
    ++candidate.matches;
    return true;
  }
  return false;
}

std::optional<Ns> TlsMatch::take(std::uint64_t count, const Records& records) {
  std::erase_if(candidates_, [&](Candidate& candidate) {
    const auto* log = records(candidate.socket);
    return !log || !fits(candidate, count, *log);
  });
  std::optional<Ns> latest;
  for (const auto& candidate : candidates_) {
    if (!candidate.arrival) return std::nullopt;
    latest = std::max(latest.value_or(*candidate.arrival), *candidate.arrival);
  }
  for (const auto& candidate : candidates_) {
    if (*latest - *candidate.arrival > kAgree) return std::nullopt;
  }
  return latest;
}

bool TlsMatch::has_matched(std::uint64_t socket) const {
  return std::ranges::any_of(candidates_, [&](const Candidate& candidate) {
    return candidate.socket == socket && candidate.matches > 0;
  });
}

std::optional<std::uint64_t> TlsMatch::socket() const {
  if (candidates_.size() != 1 || candidates_.front().matches < kCertainAfter) return std::nullopt;
  return candidates_.front().socket;
}

}  // namespace gcause
