// SPDX-License-Identifier: Apache-2.0
#include "stream/sse_parser.h"

#include <algorithm>
#include <cstring>

namespace gcause {
namespace {

constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";

/// Bytes that a string keeps allocated for the next event; more is given back, as thousands of
/// streams may lie idle behind a long one.
constexpr std::size_t kKeptCapacity = 512;

/// The longest prefix that stands before a value that is kept.
constexpr std::size_t kLongestFieldPrefix = std::string_view("event: ").size();

const char* find_or_end(const char* begin, const char* end, char wanted) {
  const void* hit = std::memchr(begin, wanted, static_cast<std::size_t>(end - begin));
  return hit != nullptr ? static_cast<const char*>(hit) : end;
}

/// Finds line ends from left to right. Each kind of line end remembers its next place, so that a
/// span that has only one kind is not searched again and again for the other.
class LineEnds {
 public:
  LineEnds(const char* begin, const char* end)
      : end_(end), lf_(find_or_end(begin, end, '\n')), cr_(find_or_end(begin, end, '\r')) {}

  /// The first CR or LF at or behind `from`, or the end. `from` never goes back.
  const char* next(const char* from) {
    if (lf_ < from) lf_ = find_or_end(from, end_, '\n');
    if (cr_ < from) cr_ = find_or_end(from, end_, '\r');
    return std::min(lf_, cr_);
  }

 private:
  const char* end_;
  const char* lf_;
  const char* cr_;
};

}  // namespace

void SseParser::parse(std::span<const std::byte> bytes, Sink sink) {
  if (bytes.empty()) return;
  const char* const begin = reinterpret_cast<const char*>(bytes.data());
  const char* const end = begin + bytes.size();
  const char* at = begin + (bom_possible_ ? take_byte_order_mark({begin, bytes.size()}) : 0);
  const char* block_begin = begin;
  LineEnds line_ends(at, end);

  while (at < end) {
    if (skip_lf_) {
      skip_lf_ = false;
      if (*at == '\n') {
        if (block_bytes_ == 0 && at == block_begin) ++block_begin;
        ++at;
        continue;
      }
    }
    const char* const line_end = line_ends.next(at);
    if (line_end == end) break;
    const std::string_view rest(at, static_cast<std::size_t>(line_end - at));
    at = line_end + 1;
    skip_lf_ = *line_end == '\r';

    const bool blank = rest.empty() && !line_open_;
    if (!blank) {
      take_field(line_open_ ? complete_line(rest) : rest);
      continue;
    }
    if (has_data_) {
      sink.call(sink.target,
                Event{type_owned_ ? std::string_view(type_) : type_view_,
                      data_owned_ ? std::string_view(data_) : data_view_,
                      static_cast<std::size_t>(at - begin),
                      block_bytes_ + static_cast<std::uint64_t>(at - block_begin), truncated_});
    }
    forget_block();
    block_begin = at;
  }

  own_pending();  // before `line_` is written again: a value may still be a view into it
  if (at < end) keep_partial_line({at, static_cast<std::size_t>(end - at)});
  if (!line_open_ && line_.capacity() > kKeptCapacity) std::string().swap(line_);
  if (!data_owned_ && data_.capacity() > kKeptCapacity) std::string().swap(data_);
  block_bytes_ += static_cast<std::uint64_t>(end - block_begin);
}

/// Returns how many of `bytes` belong to a byte order mark. Bytes that only looked like one are
/// given back as the beginning of the first line.
std::size_t SseParser::take_byte_order_mark(std::string_view bytes) {
  std::size_t at = 0;
  while (bom_matched_ < kByteOrderMark.size() && at < bytes.size() &&
         bytes[at] == kByteOrderMark[bom_matched_]) {
    ++bom_matched_;
    ++at;
  }
  if (bom_matched_ == kByteOrderMark.size()) {
    bom_possible_ = false;
  } else if (at < bytes.size()) {
    bom_possible_ = false;
    if (bom_matched_ > 0) keep_partial_line(kByteOrderMark.substr(0, bom_matched_));
  }
  return at;
}

/// The whole open line, of which `rest` is the last part; valid until the span ends.
std::string_view SseParser::complete_line(std::string_view rest) {
  keep_partial_line(rest);
  const bool unknown = line_start_lost_;
  line_open_ = line_cut_ = line_start_lost_ = false;
  return unknown ? std::string_view() : std::string_view(line_);
}

void SseParser::keep_partial_line(std::string_view part) {
  if (!line_open_) {
    line_.clear();
    line_open_ = true;
  }
  if (line_cut_) return;
  const std::size_t limit = std::max(max_event_data_, kMaxEventType) + kLongestFieldPrefix;
  const std::size_t room = limit - line_.size();
  line_cut_ = part.size() > room;
  line_.append(part.substr(0, room));
}

/// One line that is not blank. An empty `line` is one whose beginning was not seen.
void SseParser::take_field(std::string_view line) {
  if (line.empty()) return;
  const std::size_t colon = line.find(':');
  if (colon == 0) {
    ++comments_;
    return;
  }
  const std::string_view name = line.substr(0, colon);
  std::string_view value;
  if (colon != std::string_view::npos) value = line.substr(colon + 1);
  if (value.starts_with(' ')) value.remove_prefix(1);
  if (name == "data") {
    add_data(value);
  } else if (name == "event") {
    type_view_ = value.substr(0, kMaxEventType);
    type_owned_ = false;
  }
}

void SseParser::add_data(std::string_view value) {
  if (!has_data_) {
    has_data_ = true;
    data_owned_ = false;
    data_view_ = value.substr(0, max_event_data_);
    truncated_ = truncated_ || value.size() > max_event_data_;
    return;
  }
  if (!data_owned_) {
    data_.assign(data_view_);
    data_owned_ = true;
  }
  if (data_.size() == max_event_data_) {
    truncated_ = true;
    return;
  }
  data_.push_back('\n');
  const std::size_t room = max_event_data_ - data_.size();
  truncated_ = truncated_ || value.size() > room;
  data_.append(value.substr(0, room));
}

/// Copies what the open block refers to in the span that is about to go away.
void SseParser::own_pending() {
  if (has_data_ && !data_owned_) {
    data_.assign(data_view_);
    data_owned_ = true;
  }
  if (!type_owned_ && !type_view_.empty()) {
    type_.assign(type_view_);
    type_owned_ = true;
  }
  data_view_ = {};
  type_view_ = {};
}

void SseParser::forget_block() {
  has_data_ = truncated_ = has_skipped_ = false;
  data_owned_ = type_owned_ = false;
  data_view_ = {};
  type_view_ = {};
  block_bytes_ = 0;
}

void SseParser::skip(std::uint64_t count) {
  if (count == 0) return;
  if (bom_possible_) {
    bom_possible_ = false;
    if (bom_matched_ > 0) keep_partial_line(kByteOrderMark.substr(0, bom_matched_));
  }
  if (!line_open_) {
    line_.clear();
    line_open_ = true;
    line_start_lost_ = true;
  }
  line_cut_ = true;
  truncated_ = has_skipped_ = true;
  skip_lf_ = false;
  block_bytes_ += count;
}

void SseParser::reset() {
  forget_block();
  comments_ = 0;
  bom_matched_ = 0;
  bom_possible_ = true;
  skip_lf_ = false;
  line_open_ = line_cut_ = line_start_lost_ = false;
  line_.clear();
}

}  // namespace gcause
