// SPDX-License-Identifier: Apache-2.0
#include "stream/ndjson_parser.h"

#include <algorithm>
#include <cstring>

namespace gcause {
namespace {

/// Bytes that stay allocated for the next line; more is given back, as thousands of streams may lie
/// idle behind a long one.
constexpr std::size_t kKeptCapacity = 512;

constexpr std::string_view kBlank = " \t\r";

std::string_view without_blanks(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(kBlank);
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(kBlank) - begin + 1);
}

}  // namespace

void NdjsonParser::parse(std::span<const std::byte> bytes, Sink sink) {
  if (bytes.empty()) return;
  const char* const begin = reinterpret_cast<const char*>(bytes.data());
  const std::string_view text(begin, bytes.size());
  std::size_t at = 0;
  while (at < text.size()) {
    const void* const hit = std::memchr(begin + at, '\n', text.size() - at);
    if (hit == nullptr) return keep(text.substr(at));
    const auto line_end = static_cast<std::size_t>(static_cast<const char*>(hit) - begin);
    end_line(text.substr(at, line_end - at), line_end + 1, bytes_ + line_end + 1 - at, sink);
    at = line_end + 1;
  }
}

/// `rest` is what was not seen before of the line that is over.
void NdjsonParser::end_line(std::string_view rest, std::size_t end, std::uint64_t bytes,
                            Sink sink) {
  std::string_view data;
  if (open_) {
    keep(rest);
    data = truncated_ ? std::string_view(line_) : without_blanks(line_);
  } else {
    data = without_blanks(rest);
    truncated_ = data.size() > max_line_;
    data = data.substr(0, max_line_);
  }
  if (!start_lost_ && !data.empty()) sink.call(sink.target, Line{data, end, bytes, truncated_});
  open_ = truncated_ = in_gap_ = start_lost_ = false;
  bytes_ = 0;
  if (line_.capacity() > kKeptCapacity) std::string().swap(line_);
}

void NdjsonParser::keep(std::string_view part) {
  if (!open_) {
    line_.clear();
    open_ = true;
  }
  bytes_ += part.size();
  if (in_gap_) return;
  // Blanks at the beginning are no part of the line, however many there are.
  if (line_.empty()) part.remove_prefix(std::min(part.find_first_not_of(kBlank), part.size()));
  const std::size_t room = max_line_ - line_.size();
  if (part.size() > room) {
    // Nor are those at its end.
    truncated_ = truncated_ || !without_blanks(part.substr(room)).empty();
    part = part.substr(0, room);
  }
  line_.append(part);
}

void NdjsonParser::end_of_stream(Sink sink) {
  if (open_) end_line({}, 0, bytes_, sink);
}

void NdjsonParser::skip(std::uint64_t count) {
  if (count == 0) return;
  if (!open_) {
    line_.clear();
    open_ = true;
    start_lost_ = true;
  }
  in_gap_ = truncated_ = true;
  bytes_ += count;
}

}  // namespace gcause
