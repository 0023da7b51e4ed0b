// SPDX-License-Identifier: Apache-2.0
#include "stream/tls_record_log.h"

#include <algorithm>

namespace gcause {
namespace {

constexpr std::uint8_t kChangeCipherSpec = 20;
constexpr std::uint8_t kApplicationData = 23;
constexpr std::uint32_t kMaxRecordBytes = (1 << 14) + 2048;  // RFC 5246, section 6.2.3

bool is_head(std::uint8_t type, std::uint8_t major, std::uint8_t minor) {
  return type >= 20 && type <= 24 && major == 3 && minor <= 4;
}

}  // namespace

bool TlsRecordLog::looks_like_record(std::span<const std::byte> bytes) {
  return bytes.size() >= 3 &&
         is_head(std::to_integer<std::uint8_t>(bytes[0]), std::to_integer<std::uint8_t>(bytes[1]),
                 std::to_integer<std::uint8_t>(bytes[2]));
}

void TlsRecordLog::feed(std::span<const std::byte> bytes, const PieceArrival& arrival) {
  if (lost_) {
    if (!looks_like_record(bytes)) return;
    lost_ = false;
    head_filled_ = 0;
    body_left_ = 0;
  }
  for (std::size_t at = 0; at < bytes.size();) {
    if (head_filled_ < kHeadBytes) {
      head_[head_filled_++] = std::to_integer<std::uint8_t>(bytes[at++]);
      if (head_filled_ < kHeadBytes) continue;
      body_left_ = static_cast<std::uint32_t>(head_[3]) << 8 | head_[4];
      if (!is_head(head_[0], head_[1], head_[2]) || body_left_ > kMaxRecordBytes) {
        lost_ = true;
        forget();
        return;
      }
    }
    const auto step = std::min<std::size_t>(body_left_, bytes.size() - at);
    at += step;
    body_left_ -= static_cast<std::uint32_t>(step);
    if (body_left_ > 0) return;
    complete(arrival.at(at));
  }
}

void TlsRecordLog::complete(std::optional<Ns> arrival) {
  const auto length = static_cast<std::uint32_t>(head_[3]) << 8 | head_[4];
  is_tls13_ |= head_[0] == kApplicationData && !records_.empty() &&
               records_[records_.size() - 1].type == kChangeCipherSpec;
  records_.push_back({head_[0] == kApplicationData, length, arrival, head_[0]});
  ++end_;
  if (records_.size() > kMaxRecords) records_.pop_front();
  head_filled_ = 0;
}

void TlsRecordLog::skip(std::uint64_t count) {
  if (head_filled_ == kHeadBytes && count <= body_left_) {
    body_left_ -= static_cast<std::uint32_t>(count);
    if (body_left_ == 0) complete(std::nullopt);
  } else {
    lost_ = true;
    forget();
  }
}

void TlsRecordLog::forget() { records_.clear(); }

}  // namespace gcause
