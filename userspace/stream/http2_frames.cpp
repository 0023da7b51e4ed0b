// SPDX-License-Identifier: Apache-2.0
#include "stream/http2_frames.h"

#include <algorithm>
#include <string_view>

namespace gcause {
namespace {

using Bytes = std::span<const std::byte>;

constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
constexpr std::uint32_t kDefaultLongest = 16384;

// What a search for frames holds for one: real connections stay far below, random bytes do not.
constexpr std::uint32_t kMaxPlausibleStream = 1U << 24;
constexpr std::uint32_t kMaxPlausibleError = 255;
constexpr std::uint32_t kMaxPlausibleSettings = 32;

std::uint32_t number(Bytes bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<std::uint32_t>(byte);
  return value;
}

/// `header`: at least `kHeader` bytes. The reserved bit stays in `stream`.
Http2Frame frame_of(Bytes header) {
  Http2Frame frame;
  frame.length = number(header.first(3));
  frame.type = std::to_integer<std::uint8_t>(header[3]);
  frame.flags = std::to_integer<std::uint8_t>(header[4]);
  frame.stream = number(header.subspan(5, 4));
  return frame;
}

bool is_padded(const Http2Frame& frame) {
  switch (frame.type) {
    case Http2Frame::data:
    case Http2Frame::headers:
    case Http2Frame::push_promise:
      return frame.has(Http2Frame::padded);
    default:
      return false;
  }
}

/// Bytes of the fields in front of the content: length of the padding, priority, promised stream.
std::uint32_t prefix_of(const Http2Frame& frame) {
  std::uint32_t size = is_padded(frame) ? 1 : 0;
  if (frame.type == Http2Frame::headers && frame.has(Http2Frame::with_priority)) size += 5;
  if (frame.type == Http2Frame::push_promise) size += 4;
  return size;
}

/// Whether RFC 9113, 6 allows a frame of this type to have this length, on this stream.
bool is_allowed(const Http2Frame& frame) {
  const bool of_connection = frame.stream == 0;
  if (frame.length < prefix_of(frame)) return false;
  switch (frame.type) {
    case Http2Frame::data:
    case Http2Frame::headers:
    case Http2Frame::push_promise:
    case Http2Frame::continuation:
      return !of_connection;
    case Http2Frame::priority:
      return !of_connection && frame.length == 5;
    case Http2Frame::rst_stream:
      return !of_connection && frame.length == 4;
    case Http2Frame::settings:
      return of_connection && frame.length % 6 == 0;
    case Http2Frame::ping:
      return of_connection && frame.length == 8;
    case Http2Frame::goaway:
      return of_connection && frame.length >= 8;
    case Http2Frame::window_update:
      return frame.length == 4;
    default:
      return true;
  }
}

/// Flags that a sender of our time sets; nothing for a type that is hardly ever seen.
std::uint8_t usual_flags(std::uint8_t type) {
  switch (type) {
    case Http2Frame::data:
      return Http2Frame::end_stream | Http2Frame::padded;
    case Http2Frame::headers:
      return Http2Frame::end_stream | Http2Frame::end_headers | Http2Frame::padded |
             Http2Frame::with_priority;
    case Http2Frame::push_promise:
      return Http2Frame::end_headers | Http2Frame::padded;
    case Http2Frame::settings:
    case Http2Frame::ping:
      return Http2Frame::ack;
    case Http2Frame::continuation:
      return Http2Frame::end_headers;
    default:
      return 0;
  }
}

bool is_usual_type(std::uint8_t type) {
  return type <= Http2Frame::altsvc || type == Http2Frame::origin ||
         type == Http2Frame::priority_update;
}

bool is_usual(const Http2Frame& frame) {
  return frame.stream < kMaxPlausibleStream && (frame.flags & ~usual_flags(frame.type)) == 0;
}

/// Whether this can be a frame where one has to begin. What one side allows the other may have been
/// said before anybody looked, so longer ones than that have to look good; bytes of text, where
/// something was missed, make up lengths of megabytes.
bool is_possible(const Http2Frame& frame, std::uint32_t longest) {
  if (!is_allowed(frame)) return false;
  return frame.length <= longest || (frame.type <= Http2Frame::headers && is_usual(frame));
}

/// Whether the payload, as far as `bytes` hold it, fits the header.
bool is_plausible_payload(const Http2Frame& frame, Bytes bytes) {
  if (is_padded(frame) && !bytes.empty()) {
    return std::to_integer<std::uint32_t>(bytes[0]) + prefix_of(frame) <= frame.length;
  }
  if (bytes.size() < 4 || frame.length < 4) return true;
  const std::uint32_t first = number(bytes.first(4));
  switch (frame.type) {
    case Http2Frame::window_update:
      return first != 0 && first >> 31 == 0;
    case Http2Frame::rst_stream:
      return first <= kMaxPlausibleError;
    case Http2Frame::settings:
      return first >> 24 == 0;  // a setting's number, of 16 bits
    default:
      return true;
  }
}

/// Whether `bytes` look like a frame to somebody who does not know that one begins there.
bool is_plausible(const Http2Frame& frame, Bytes payload, std::uint32_t longest) {
  if (!is_usual_type(frame.type) || frame.length > longest || !is_allowed(frame)) return false;
  if (!is_usual(frame)) return false;
  switch (frame.type) {
    case Http2Frame::data:
      if (frame.length == 0 && !frame.has(Http2Frame::end_stream)) return false;
      break;
    case Http2Frame::headers:
      if (frame.length == 0) return false;
      break;
    case Http2Frame::settings:
      if (frame.length > (frame.has(Http2Frame::ack) ? 0 : 6 * kMaxPlausibleSettings)) return false;
      break;
    default:
      break;
  }
  return is_plausible_payload(frame, payload);
}

/// Whether frames begin at the first of `bytes`; `first`: a read or write begins there, too, as
/// frames like to do.
bool frames_begin(Bytes bytes, std::uint32_t longest, bool first) {
  constexpr unsigned kEnough = 3;
  unsigned frames = 0;
  bool cut = false;  // the last one goes on behind these bytes
  while (frames < kEnough && bytes.size() >= Http2Frame::kHeader) {
    const Http2Frame frame = frame_of(bytes);
    const Bytes rest = bytes.subspan(Http2Frame::kHeader);
    const Bytes payload = rest.first(std::min<std::size_t>(rest.size(), frame.length));
    if (!is_plausible(frame, payload, longest)) return false;
    ++frames;
    cut = payload.size() < frame.length;
    bytes = rest.subspan(payload.size());
  }
  const bool ends_with_frame = bytes.empty() && !cut;
  if (!first) return frames >= kEnough || (frames + 1 == kEnough && ends_with_frame);
  return frames >= 2 || (frames == 1 && ends_with_frame);
}

/// The first index from `from` on at which frames begin; the size of `bytes`, if there is none.
std::size_t find_frames(Bytes bytes, std::size_t from, std::uint32_t longest) {
  // The first byte of a length rules out most places.
  const auto most = static_cast<std::byte>(longest >> 16);
  for (std::size_t at = from; at + Http2Frame::kHeader <= bytes.size(); ++at) {
    if (bytes[at] > most) continue;
    if (frames_begin(bytes.subspan(at), longest, at == 0)) return at;
  }
  return bytes.size();
}

bool is_beginning_of_preface(Bytes bytes) {
  const Bytes preface = std::as_bytes(std::span(kPreface));
  const std::size_t size = std::min(bytes.size(), preface.size());
  return std::ranges::equal(bytes.first(size), preface.first(size));
}

}  // namespace

bool begins_with_http2_preface(Bytes bytes) {
  return bytes.size() >= kPreface.size() && is_beginning_of_preface(bytes);
}

Http2Guess guess_http2(Bytes bytes) {
  if (is_beginning_of_preface(bytes)) {
    // "PR" might become a method of HTTP/1.
    return bytes.size() > 2 ? Http2Guess::yes : Http2Guess::more;
  }
  if (bytes.size() < Http2Frame::kHeader) {
    const bool short_enough = bytes[0] == std::byte{0};
    const bool usual = bytes.size() < 4 || is_usual_type(std::to_integer<std::uint8_t>(bytes[3]));
    return short_enough && usual ? Http2Guess::more : Http2Guess::no;
  }
  return find_frames(bytes, 0, kDefaultLongest) < bytes.size() ? Http2Guess::yes : Http2Guess::no;
}

void Http2FrameReader::expect_begin() {
  if (state_ == State::fresh) state_ = State::begin;
}

void Http2FrameReader::allow_length(std::uint32_t bytes) {
  longest_ = std::max(longest_, std::min(bytes, Http2Frame::kMaxLength));
}

void Http2FrameReader::feed(Bytes bytes, Http2FrameHandler& handler) {
  if (bytes.empty()) return;
  if (state_ == State::fresh || state_ == State::lost) {
    const bool enough = state_ == State::fresh || bytes.size() > 2;
    state_ = enough && is_beginning_of_preface(bytes) ? State::begin : State::lost;
    preface_size_ = 0;
  }
  std::size_t at = state_ == State::lost ? search(bytes, 0, handler) : 0;
  while (at < bytes.size()) {
    at = step(bytes, at, handler);
    if (state_ == State::lost) at = search(bytes, at, handler);
  }
}

std::size_t Http2FrameReader::search(Bytes bytes, std::size_t from, Http2FrameHandler& handler) {
  const std::size_t found = find_frames(bytes, from, longest_);
  if (found > from) handler.on_unframed();
  if (found < bytes.size()) {
    state_ = State::header;
    header_size_ = 0;
  }
  return found;
}

/// Takes one element from `bytes` at `at` and returns the index behind it; where the place is lost,
/// the index from which to search.
std::size_t Http2FrameReader::step(Bytes bytes, std::size_t at, Http2FrameHandler& handler) {
  switch (state_) {
    case State::begin:
      return take_begin(bytes, at, handler);
    case State::header:
      return take_header(bytes, at, handler);
    case State::prefix:
      return take_prefix(bytes[at], at + 1, handler);
    case State::content:
      return take_content(bytes, at, handler);
    case State::padding: {
      const auto size = std::min<std::size_t>(bytes.size() - at, padding_left_);
      padding_left_ = static_cast<std::uint8_t>(padding_left_ - size);
      return go_on(at + size, handler);
    }
    case State::fresh:
    case State::lost:
      break;
  }
  return bytes.size();
}

std::size_t Http2FrameReader::take_begin(Bytes bytes, std::size_t at, Http2FrameHandler& handler) {
  const Bytes preface = std::as_bytes(std::span(kPreface));
  if (bytes[at] != preface[preface_size_]) {
    if (preface_size_ != 0) {
      lose(handler);
    } else {
      state_ = State::header;
    }
    return at;
  }
  if (++preface_size_ == preface.size()) {
    state_ = State::header;
    handler.on_preface();
  }
  return at + 1;
}

std::size_t Http2FrameReader::take_header(Bytes bytes, std::size_t at, Http2FrameHandler& handler) {
  const std::size_t size = std::min(bytes.size() - at, Http2Frame::kHeader - header_size_);
  std::ranges::copy(bytes.subspan(at, size), header_.begin() + header_size_);
  header_size_ = static_cast<std::uint8_t>(header_size_ + size);
  if (header_size_ < Http2Frame::kHeader) return at + size;
  header_size_ = 0;
  frame_ = frame_of(header_);
  frame_.stream &= ~(1U << 31);  // reserved, to be ignored
  if (!is_possible(frame_, longest_)) {
    lose(handler);
    return at;
  }
  begin_payload(at + size, handler);
  return at + size;
}

/// `at`: index in the fed span just behind the header.
void Http2FrameReader::begin_payload(std::size_t at, Http2FrameHandler& handler) {
  prefix_left_ = static_cast<std::uint8_t>(prefix_of(frame_));
  content_left_ = frame_.length - prefix_left_;
  padding_left_ = 0;
  padding_unknown_ = false;
  handler.on_frame(frame_);
  go_on(at, handler);
}

/// One byte of the fields in front of the content, just in front of `at`; the first is the length
/// of the padding.
std::size_t Http2FrameReader::take_prefix(std::byte byte, std::size_t at,
                                          Http2FrameHandler& handler) {
  if (is_padded(frame_) && prefix_left_ == prefix_of(frame_)) {
    padding_left_ = std::to_integer<std::uint8_t>(byte);
    if (padding_left_ > content_left_) {
      lose(handler);
      return at;
    }
    content_left_ -= padding_left_;
  }
  --prefix_left_;
  return go_on(at, handler);
}

std::size_t Http2FrameReader::take_content(Bytes bytes, std::size_t at,
                                           Http2FrameHandler& handler) {
  const auto size = std::min<std::size_t>(bytes.size() - at, content_left_);
  content_left_ -= static_cast<std::uint32_t>(size);
  if (padding_unknown_) {
    handler.on_content_skipped(frame_, size);
  } else {
    handler.on_content(frame_, bytes.subspan(at, size), at + size);
  }
  return go_on(at + size, handler);
}

/// To what comes next in the frame, or to the next frame; `at` is the index of the next byte in the
/// fed span. Returns it.
std::size_t Http2FrameReader::go_on(std::size_t at, Http2FrameHandler& handler) {
  if (prefix_left_ > 0) {
    state_ = State::prefix;
  } else if (content_left_ > 0) {
    state_ = State::content;
  } else if (padding_left_ > 0) {
    state_ = State::padding;
  } else {
    state_ = State::header;
    handler.on_frame_end(frame_, at);
  }
  return at;
}

std::uint64_t Http2FrameReader::payload_left() const {
  switch (state_) {
    case State::prefix:
    case State::content:
    case State::padding:
      return std::uint64_t{prefix_left_} + content_left_ + padding_left_;
    case State::fresh:
    case State::begin:
    case State::header:
    case State::lost:
      break;
  }
  return 0;
}

bool Http2FrameReader::skip(std::uint64_t count, Http2FrameHandler& handler) {
  if (count == 0) return true;
  std::uint64_t left = std::min(count, payload_left());
  const bool beyond = left < count;
  if (left > 0) {
    if (is_padded(frame_) && prefix_left_ == prefix_of(frame_)) padding_unknown_ = true;
    const auto of_prefix = std::min<std::uint64_t>(left, prefix_left_);
    prefix_left_ = static_cast<std::uint8_t>(prefix_left_ - of_prefix);
    left -= of_prefix;
    const auto of_content = std::min<std::uint64_t>(left, content_left_);
    content_left_ -= static_cast<std::uint32_t>(of_content);
    padding_left_ = static_cast<std::uint8_t>(padding_left_ - (left - of_content));
    if (of_content > 0) handler.on_content_skipped(frame_, of_content);
    go_on(0, handler);
  }
  if (beyond) gap(handler);
  return !beyond;
}

void Http2FrameReader::lose(Http2FrameHandler& handler) {
  if (state_ == State::lost) return;
  state_ = State::lost;
  header_size_ = 0;
  handler.on_lost();
}

void Http2FrameReader::gap(Http2FrameHandler& handler) {
  lose(handler);
  handler.on_unframed();
}

}  // namespace gcause
