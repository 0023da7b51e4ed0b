// SPDX-License-Identifier: Apache-2.0
#include "stream/hpack_decoder.h"

#include <nghttp2/nghttp2.h>

#include <array>
#include <optional>

namespace gcause {
namespace {

using Bytes = std::span<const std::uint8_t>;

// RFC 7541, 6: the bits in front of the first number of a representation, and how long that is.
constexpr std::uint8_t kIndexed = 0x80;
constexpr std::uint8_t kInserted = 0x40;
constexpr std::uint8_t kSizeUpdate = 0x20;
constexpr int kIndexedPrefix = 7, kInsertedPrefix = 6, kSizeUpdatePrefix = 5, kLiteralPrefix = 4;
constexpr int kStringPrefix = 7;

/// A literal with a new name that is empty and enters the table, up to its value.
constexpr std::array<std::uint8_t, 2> kUnknownName = {kInserted, 0};

/// An update to `HpackDecoder::kMaxTable`: 31, then 65536 - 31 in groups of 7 bits.
constexpr std::array<std::uint8_t, 4> kLargestUpdate = {0x3F, 0xE1, 0xFF, 0x03};
static_assert(HpackDecoder::kMaxTable == 31 + 0x61 + (0x7F << 7) + (0x03 << 14));

/// Takes a number with a prefix of `bits` from `bytes` at `at` (RFC 7541, 5.1). Nothing, if it is
/// cut off or beyond 32 bits.
std::optional<std::uint32_t> take_number(Bytes bytes, std::size_t& at, int bits) {
  if (at >= bytes.size()) return std::nullopt;
  const std::uint32_t most = (1U << bits) - 1;
  std::uint64_t number = bytes[at++] & most;
  if (number < most) return static_cast<std::uint32_t>(number);
  for (int shift = 0; shift <= 28 && at < bytes.size(); shift += 7) {
    const std::uint8_t byte = bytes[at++];
    number += std::uint64_t{byte & 0x7FU} << shift;
    if (number > UINT32_MAX) return std::nullopt;
    if ((byte & 0x80) == 0) return static_cast<std::uint32_t>(number);
  }
  return std::nullopt;
}

/// Moves `at` behind a string (RFC 7541, 5.2); false, if it is cut off.
bool pass_string(Bytes bytes, std::size_t& at) {
  const auto length = take_number(bytes, at, kStringPrefix);
  if (!length || *length > bytes.size() - at) return false;
  at += *length;
  return true;
}

int prefix_of(std::uint8_t first) {
  if ((first & kIndexed) != 0) return kIndexedPrefix;
  if ((first & kInserted) != 0) return kInsertedPrefix;
  return (first & kSizeUpdate) != 0 ? kSizeUpdatePrefix : kLiteralPrefix;
}

}  // namespace

void HpackDecoder::Deleter::operator()(nghttp2_hd_inflater* inflater) const {
  nghttp2_hd_inflate_del(inflater);
}

bool HpackDecoder::begin() {
  nghttp2_hd_inflater* inflater = nullptr;
  if (nghttp2_hd_inflate_new(&inflater) != 0) return false;
  inflater_.reset(inflater);
  return nghttp2_hd_inflate_change_table_size(inflater, kMaxTable) == 0;
}

bool HpackDecoder::parse(std::span<const std::byte> block, Sink sink) {
  Bytes rest{reinterpret_cast<const std::uint8_t*>(block.data()), block.size()};
  bool good = inflater_ != nullptr || begin();
  while (good && !rest.empty()) good = take_one(rest, sink);
  if (good) good = nghttp2_hd_inflate_end_headers(inflater_.get()) == 0;
  if (!good) forget();
  return good;
}

/// Takes one representation off the front of `rest`.
bool HpackDecoder::take_one(Bytes& rest, Sink sink) {
  const std::uint8_t first = rest.front();
  const int prefix = prefix_of(first);
  std::size_t end = 0;
  const auto number = take_number(rest, end, prefix);
  if (!number) return false;
  std::size_t value = end;
  if (prefix == kInsertedPrefix || prefix == kLiteralPrefix) {
    if (*number == 0 && !pass_string(rest, value)) return false;
    end = value;
    if (!pass_string(rest, end)) return false;
  }
  const Bytes whole = rest.first(end);
  rest = rest.subspan(end);
  if (prefix == kSizeUpdatePrefix) return take_size_update(whole, *number, sink);
  if (*number <= nghttp2_hd_inflate_get_num_table_entries(inflater_.get())) {
    return inflate(whole, sink);
  }
  if (prefix == kInsertedPrefix) {
    return inflate(kUnknownName, sink) && inflate(whole.subspan(value), sink);
  }
  sink.call(sink.target, Field{});
  return true;
}

bool HpackDecoder::take_size_update(Bytes whole, std::uint32_t size, Sink sink) {
  return inflate(size > kMaxTable ? Bytes(kLargestUpdate) : whole, sink);
}

bool HpackDecoder::inflate(Bytes bytes, Sink sink) {
  while (!bytes.empty()) {
    nghttp2_nv field{};
    int flags = NGHTTP2_HD_INFLATE_NONE;
    const auto taken = nghttp2_hd_inflate_hd2(inflater_.get(), &field, &flags, bytes.data(),
                                              bytes.size(), /*in_final=*/0);
    if (taken < 0) return false;
    bytes = bytes.subspan(static_cast<std::size_t>(taken));
    if ((flags & NGHTTP2_HD_INFLATE_EMIT) == 0) continue;
    sink.call(sink.target, Field{{reinterpret_cast<const char*>(field.name), field.namelen},
                                 {reinterpret_cast<const char*>(field.value), field.valuelen}});
  }
  return true;
}

}  // namespace gcause
