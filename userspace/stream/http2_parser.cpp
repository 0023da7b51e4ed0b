// SPDX-License-Identifier: Apache-2.0
#include "stream/http2_parser.h"

#include <algorithm>
#include <utility>

#include "stream/http_fields.h"

namespace gcause {
namespace {

constexpr std::uint32_t kAllStreams = 1U << 31;

// RFC 9113, 6.5.2.
constexpr std::size_t kSettingSize = 6;
constexpr std::uint32_t kMaxFrameSize = 5;

std::uint32_t number(std::span<const std::byte> bytes) {
  std::uint32_t value = 0;
  for (const std::byte byte : bytes) value = value << 8 | std::to_integer<std::uint32_t>(byte);
  return value;
}

/// The value of a :status field; 0, if it is none (RFC 9110, 15: three digits, from 100 on).
int status_of(std::string_view text) {
  if (text.size() != 3 || text.front() == '0') return 0;
  int status = 0;
  for (const char c : text) {
    if (c < '0' || c > '9') return 0;
    status = status * 10 + (c - '0');
  }
  return status;
}

}  // namespace

/// The fields of a header block, as far as they matter here.
struct Http2Parser::Fields {
  bool of_request = false;   ///< has a pseudo-header that only requests have
  bool of_response = false;  ///< has :status
  bool whole = true;         ///< all fields were decoded
  bool has_length = false;
  int status = 0;
  std::string method;
  std::string authority;
  std::string host;
  std::string media_type;
  std::string codings;

  void add(const HpackDecoder::Field& field);
};

void Http2Parser::Fields::add(const HpackDecoder::Field& field) {
  if (field.name.empty()) {
    whole = false;
  } else if (field.name == ":status") {
    of_response = true;
    status = status_of(field.value);
  } else if (field.name.starts_with(':')) {
    of_request = true;
    if (field.name == ":method") method = field.value;
    if (field.name == ":authority" && is_usable_host(field.value)) authority = field.value;
  } else if (field.name == "host") {
    if (is_usable_host(field.value)) host = field.value;
  } else if (field.name == "content-type") {
    media_type = media_type_of(field.value);
  } else if (field.name == "content-encoding") {
    append_codings(codings, field.value);
  } else if (field.name == "content-length") {
    has_length = true;
  }
}

Http2Parser::Http2Parser(Start start)
    : seen_from_(start == Start::connection_begin ? 0 : kAllStreams) {
  if (start == Start::unknown) return;
  for (Side& side : sides_) side.frames.expect_begin();
}

void Http2Parser::feed(StreamDirection direction, std::span<const std::byte> bytes,
                       Http2Handler& handler) {
  direction_ = direction;
  handler_ = &handler;
  // Another connection has taken the place of this one.
  const Http2FrameReader& frames = side().frames;
  if ((frames.between_frames() || frames.lost()) && begins_with_http2_preface(bytes)) restart();
  side().frames.feed(bytes, *this);
}

bool Http2Parser::skip(StreamDirection direction, std::uint64_t count, Http2Handler& handler) {
  direction_ = direction;
  handler_ = &handler;
  return side().frames.skip(count, *this);
}

void Http2Parser::on_gap(StreamDirection direction, Http2Handler& handler) {
  direction_ = direction;
  handler_ = &handler;
  side().frames.gap(*this);
}

void Http2Parser::on_suspicion() {
  for (Side& side : sides_) {
    side.hpack.forget();
    side.block.damaged = true;
  }
  seen_from_ = kAllStreams;
}

void Http2Parser::on_eof(Http2Handler& handler) {
  handler_ = &handler;
  cut_if([](const auto&) { return true; });
}

void Http2Parser::restart() {
  cut_if([](const auto&) { return true; });
  for (Side& side : sides_) side = Side{};
  requests_.reset();
  newest_request_ = 0;
  seen_from_ = 0;
  ended_ = {};
}

void Http2Parser::on_preface() {
  learn_requests(direction_);
  // Nothing of the connection was there before it, unless it is not where it began.
  if (other_side().frames.lost()) return;
  other_side().frames.expect_begin();
  seen_from_ = 0;
}

void Http2Parser::on_frame(const Http2Frame& frame) {
  side().small_size = 0;
  side().small_damaged = false;
  // RFC 9113, 4.3: nothing comes between the frames of a header block, so the rest of it is
  // missing.
  if (side().block.stream != 0 && frame.type != Http2Frame::continuation) {
    side().block.damaged = true;
    end_block(0);
  }
  switch (frame.type) {
    case Http2Frame::headers:
    case Http2Frame::push_promise:
    case Http2Frame::continuation:
      begin_block(frame);
      break;
    default:
      break;
  }
}

void Http2Parser::begin_block(const Http2Frame& frame) {
  Block& block = side().block;
  if (frame.type == Http2Frame::continuation && block.stream == frame.stream) return;
  block = Block{};
  block.stream = frame.stream;
  block.of_promise = frame.type == Http2Frame::push_promise;
  block.ends_stream = frame.type == Http2Frame::headers && frame.has(Http2Frame::end_stream);
  block.damaged = frame.type == Http2Frame::continuation;
}

void Http2Parser::on_content(const Http2Frame& frame, std::span<const std::byte> piece,
                             std::size_t end) {
  switch (frame.type) {
    case Http2Frame::data:
      if (body_of(frame.stream) != nullptr) handler_->on_body(frame.stream, piece, end);
      break;
    case Http2Frame::headers:
    case Http2Frame::push_promise:
    case Http2Frame::continuation:
      add_to_block(piece);
      break;
    case Http2Frame::settings:
    case Http2Frame::goaway:
      take_small(frame, piece);
      break;
    default:
      break;
  }
}

void Http2Parser::on_content_skipped(const Http2Frame& frame, std::uint64_t count) {
  side().small_damaged = true;
  switch (frame.type) {
    case Http2Frame::data:
      if (body_of(frame.stream) != nullptr) handler_->on_body_skipped(frame.stream, count);
      break;
    case Http2Frame::headers:
    case Http2Frame::push_promise:
    case Http2Frame::continuation:
      side().block.damaged = true;
      break;
    default:
      break;
  }
}

void Http2Parser::on_frame_end(const Http2Frame& frame, std::size_t end) {
  switch (frame.type) {
    case Http2Frame::data:
      if (frame.has(Http2Frame::end_stream)) data_ended(frame.stream, end);
      break;
    case Http2Frame::headers:
    case Http2Frame::push_promise:
    case Http2Frame::continuation:
      if (frame.has(Http2Frame::end_headers)) end_block(end);
      break;
    case Http2Frame::rst_stream:
      take_reset(frame.stream);
      break;
    case Http2Frame::goaway:
      take_goaway();
      break;
    default:
      break;
  }
}

void Http2Parser::on_lost() {
  const Block cut = std::exchange(side().block, Block{});
  seen_from_ = kAllStreams;
  // Of requests the number of the next one will tell whether header blocks are missing.
  if (cut.stream != 0 || requests_ != direction_) side().hpack.forget();
  cut_if([&](const Stream& stream) { return stream.has_head && stream.responses == direction_; });
}

/// Where they are of requests their ends may be among them.
void Http2Parser::on_unframed() {
  if (requests_ != direction_) return;
  for (const auto& [number, stream] : streams_) {
    if (!stream.request_over && !stream.has_head) handler_->on_request_end(number, 0);
  }
}

void Http2Parser::add_to_block(std::span<const std::byte> piece) {
  Block& block = side().block;
  if (block.damaged) return;
  if (piece.size() > kMaxBlock - block.bytes.size()) {
    block.damaged = true;
    std::string().swap(block.bytes);
    return;
  }
  block.bytes.append(reinterpret_cast<const char*>(piece.data()), piece.size());
}

/// The header block of this side is complete, or what there will be of it. `end`: as of
/// on_frame_end.
void Http2Parser::end_block(std::size_t end) {
  const Block block = std::exchange(side().block, Block{});
  Fields fields;
  if (block.damaged || misses_requests(block)) side().hpack.forget();
  if (block.damaged || !side().hpack.decode(std::as_bytes(std::span(block.bytes)),
                                            [&](const auto& field) { fields.add(field); })) {
    fields = Fields{};
    fields.whole = false;
  }
  if (block.of_promise || fields.of_response) {
    learn_requests(other(direction_));
  } else if (fields.of_request) {
    learn_requests(direction_);
  }
  if (block.of_promise) return;
  if (!requests_) {
    take_undecided(block.stream, block.ends_stream);
  } else if (*requests_ == direction_) {
    take_request(block.stream, fields, block.ends_stream, end);
  } else {
    take_response(block.stream, fields, block.ends_stream);
  }
}

/// Clients number their streams by twos (RFC 9113, 5.1.1 asks for rising odd numbers). One that is
/// left out is a request that was missed, and with it what later header blocks may refer to.
bool Http2Parser::misses_requests(const Block& block) const {
  return requests_ == direction_ && newest_request_ != 0 && block.stream > newest_request_ + 2;
}

void Http2Parser::take_request(std::uint32_t stream, const Fields& fields, bool ends_stream,
                               std::size_t end) {
  if (stream > newest_request_) {
    newest_request_ = stream;
    seen_from_ = std::min(seen_from_, stream);
    if (open(stream, other(direction_)) == nullptr) return;
    Http2RequestHead head;
    head.method = fields.method;
    const std::string& host = fields.authority.empty() ? fields.host : fields.authority;
    if (!host.empty()) head.host = host;
    handler_->on_request(stream, head);
  }
  if (ends_stream) data_ended(stream, end);
}

void Http2Parser::take_response(std::uint32_t stream, const Fields& fields, bool ends_stream) {
  Stream* known = find(stream);
  if (fields.status >= 100 && fields.status < 200) return;  // the final head is still to come
  if (known == nullptr) {
    // Without a status this is the trailer of a response that was missed.
    if (is_over(stream) || is_far(stream) || (ends_stream && !fields.of_response)) return;
    known = open(stream, direction_);
  }
  if (known == nullptr) return;
  if (!known->has_head) {
    known->has_head = true;
    Http2ResponseHead head;
    if (fields.whole && !fields.of_response) {
      head.seen = head.whole = false;  // this is the trailer
    } else {
      head.status = fields.status;
      head.content_type = fields.media_type;
      head.content_encoding = fields.codings;
      head.has_length = fields.has_length;
      head.whole = fields.whole;
    }
    handler_->on_head(stream, head);
  }
  if (ends_stream) finish(streams_.find(stream), Http2End::complete);
}

/// A header block that does not tell of what it is, on a connection of which nothing else told.
void Http2Parser::take_undecided(std::uint32_t stream, bool ends_stream) {
  const Stream* known = find(stream);
  if (ends_stream && known != nullptr && known->responses == direction_) {
    finish(streams_.find(stream), Http2End::complete);
  }
}

/// A DATA frame, or a request's header block, with END_STREAM has passed.
void Http2Parser::data_ended(std::uint32_t stream, std::size_t end) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return;
  if (found->second.responses == direction_) {
    finish(found, Http2End::complete);
  } else {
    found->second.request_over = true;
    handler_->on_request_end(stream, end);
  }
}

void Http2Parser::take_reset(std::uint32_t stream) {
  const auto found = streams_.find(stream);
  if (found == streams_.end()) return note_ended(stream);
  finish(found,
         direction_ == StreamDirection::read ? Http2End::reset_read : Http2End::reset_written);
}

void Http2Parser::take_small(const Http2Frame& frame, std::span<const std::byte> piece) {
  Side& side = this->side();
  const std::size_t whole = frame.type == Http2Frame::settings ? kSettingSize : side.small.size();
  for (const std::byte byte : piece) {
    if (side.small_damaged || side.small_size == whole) return;
    side.small[side.small_size++] = byte;
    if (frame.type == Http2Frame::settings && side.small_size == whole) take_setting();
  }
}

/// Settings are what their sender takes, so they rule the other direction.
void Http2Parser::take_setting() {
  const std::span<const std::byte> setting(side().small);
  side().small_size = 0;
  if (number(setting.first(2)) == kMaxFrameSize) {
    other_side().frames.allow_length(number(setting.subspan(2, 4)));
  }
}

/// A server says up to which stream it will answer; what a client says of pushed ones is of no use.
void Http2Parser::take_goaway() {
  if (!requests_ || *requests_ == direction_ || side().small_size < 4) return;
  const std::uint32_t last = number(std::span(side().small).first(4)) & ~kAllStreams;
  for (auto at = streams_.upper_bound(last); at != streams_.end();) {
    const auto stream = at++;
    if (stream->first % 2 == 1) finish(stream, Http2End::cut);
  }
}

/// `direction` carries requests. What was taken for the body of a response there was none.
void Http2Parser::learn_requests(StreamDirection direction) {
  if (requests_) return;
  requests_ = direction;
  cut_if([&](const Stream& stream) { return stream.responses == direction; });
}

Http2Parser::Stream* Http2Parser::find(std::uint32_t stream) {
  const auto found = streams_.find(stream);
  return found == streams_.end() ? nullptr : &found->second;
}

/// The stream whose response has its body in a DATA frame of this side; null, if it is a request's.
Http2Parser::Stream* Http2Parser::body_of(std::uint32_t stream) {
  if (requests_ == direction_) return nullptr;
  Stream* known = find(stream);
  if (known == nullptr && stream < seen_from_ && !is_over(stream) && !is_far(stream)) {
    known = open(stream, direction_);
  }
  if (known == nullptr || known->responses != direction_) return nullptr;
  if (!known->has_head) {
    known->has_head = true;
    Http2ResponseHead head;
    head.seen = head.whole = false;
    handler_->on_head(stream, head);
  }
  return known;
}

/// Null, if there are too many.
Http2Parser::Stream* Http2Parser::open(std::uint32_t stream, StreamDirection responses) {
  if (streams_.size() >= kMaxStreams) return nullptr;
  return &streams_.emplace(stream, Stream{responses}).first->second;
}

/// Whether so many requests cannot have been missed that the response to this one comes now: it is
/// none, but bytes that look like a frame.
bool Http2Parser::is_far(std::uint32_t stream) const {
  constexpr std::uint32_t kMostMissed = 512;
  return newest_request_ != 0 && stream > newest_request_ + 2 * kMostMissed;
}

/// Whether a stream without an entry is known to have ended.
bool Http2Parser::is_over(std::uint32_t stream) const {
  const bool seen = stream >= seen_from_ && stream <= newest_request_ && stream % 2 == 1;
  return seen || std::ranges::find(ended_, stream) != ended_.end();
}

void Http2Parser::finish(Streams::iterator stream, Http2End end) {
  const std::uint32_t number = stream->first;
  streams_.erase(stream);
  note_ended(number);
  handler_->on_end(number, end);
}

void Http2Parser::note_ended(std::uint32_t stream) { ended_[ended_at_++ % ended_.size()] = stream; }

template <typename Predicate>
void Http2Parser::cut_if(Predicate predicate) {
  for (auto at = streams_.begin(); at != streams_.end();) {
    const auto stream = at++;
    if (!predicate(stream->second)) continue;
    const std::uint32_t number = stream->first;
    streams_.erase(stream);
    handler_->on_end(number, Http2End::cut);
  }
}

}  // namespace gcause
