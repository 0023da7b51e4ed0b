// SPDX-License-Identifier: Apache-2.0
#include "stream/http1_parser.h"

#include <algorithm>
#include <array>

#include "stream/http1_fields.h"
#include "stream/mid_body.h"

namespace gcause {
namespace {

constexpr std::string_view kVersionPrefix = "HTTP/1.";
constexpr std::size_t kLongestMethod = 7;

constexpr std::size_t kNone = std::string_view::npos;

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

struct StatusLine {
  int minor;  ///< version HTTP/1.minor
  int status;
};

/// RFC 9112, 4: "HTTP/1.1 200 OK"; the reason and the space before it may be missing.
std::optional<StatusLine> parse_status_line(std::string_view line) {
  if (!line.starts_with(kVersionPrefix)) return std::nullopt;
  line.remove_prefix(kVersionPrefix.size());
  if (line.size() < 5 || !is_digit(line[0]) || line[1] != ' ') return std::nullopt;
  if (!is_digit(line[2]) || !is_digit(line[3]) || !is_digit(line[4])) return std::nullopt;
  if (line[2] == '0' || (line.size() > 5 && line[5] != ' ')) return std::nullopt;
  return StatusLine{line[0] - '0', (line[2] - '0') * 100 + (line[3] - '0') * 10 + (line[4] - '0')};
}

/// Whether `text` is, or may become, the beginning of a status line.
bool may_be_status_line(std::string_view text) {
  return kVersionPrefix.starts_with(text.substr(0, kVersionPrefix.size()));
}

enum class Match { no, partial, yes };

/// RFC 9110, 9.3; RFC 5789; the HTTP QUERY method. A word that is none of them begins no request:
/// bodies are written through the same calls, and begin with words, too.
constexpr std::array<std::string_view, 10> kMethods = {
    "GET", "POST", "HEAD", "PUT", "PATCH", "DELETE", "OPTIONS", "CONNECT", "TRACE", "QUERY"};

Match match_method(std::string_view word, bool complete) {
  for (const std::string_view method : kMethods) {
    if (complete ? method == word : method.starts_with(word)) {
      return complete ? Match::yes : Match::partial;
    }
  }
  return Match::no;
}

/// Whether `text` begins with a request line (RFC 9112, 3), or with the beginning of one.
Match match_request_line(std::string_view text) {
  const std::size_t space = text.substr(0, kLongestMethod + 1).find(' ');
  const Match method = match_method(text.substr(0, space), space != kNone);
  if (method != Match::yes) return method;
  std::size_t at = space;
  const std::size_t target = ++at;
  while (at < text.size() && (is_visible(text[at]) || (text[at] & 0x80) != 0)) ++at;
  if (at == text.size()) return Match::partial;
  if (at == target || text[at] != ' ') return Match::no;
  const std::string_view version = text.substr(at + 1);
  if (!may_be_status_line(version)) return Match::no;
  if (version.size() <= kVersionPrefix.size()) return Match::partial;
  if (!is_digit(version[kVersionPrefix.size()])) return Match::no;
  const std::string_view line_end = version.substr(kVersionPrefix.size() + 1);
  if (line_end.empty() || line_end == "\r") return Match::partial;
  return line_end.starts_with('\n') || line_end.starts_with("\r\n") ? Match::yes : Match::no;
}

}  // namespace

Http1ResponseParser::Http1ResponseParser(Start start)
    : state_(start == Start::connection_begin ? State::head : State::lost),
      may_resume_(start == Start::unknown) {}

bool Http1ResponseParser::in_body() const {
  switch (state_) {
    case State::head:
    case State::lost:
    case State::upgraded:
    case State::closed:
      return false;
    case State::body_length:
    case State::body_until_eof:
    case State::chunk_size:
    case State::chunk_size_pad:
    case State::chunk_extension:
    case State::chunk_size_lf:
    case State::chunk_data:
    case State::chunk_data_end:
    case State::chunk_data_lf:
    case State::trailer_begin:
    case State::trailer_line:
    case State::trailer_lf:
      return true;
  }
  return false;
}

void Http1ResponseParser::feed(std::span<const std::byte> bytes, Http1ResponseHandler& handler) {
  const std::string_view text = as_text(bytes);
  const bool begins_response = text.starts_with(kVersionPrefix);
  if (unframed_) reframe(text, handler);
  bool resumed = state_ == State::lost;
  if (resumed) {
    if (!begins_response && !resume(text, handler)) return;
    if (begins_response) begin_head();
  }
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t before = at;
    at = step(text, at, handler);
    if (state_ != State::lost) continue;
    // A status line where something else was due: the place had been lost before this span.
    if (before != 0 || resumed || !begins_response) return;
    resumed = true;
    begin_head();
    at = 0;
  }
}

/// Whether the text, behind a place that was lost, goes on with an event stream.
bool Http1ResponseParser::resume(std::string_view text, Http1ResponseHandler& handler) {
  const MidBody found = may_resume_ ? match_mid_body(text) : MidBody::no;
  if (found == MidBody::no) return false;
  ResponseHead head{};
  head.content_type = kEventStream;
  head.chunked = found == MidBody::chunked;
  head.close = !head.chunked;
  handler.on_head(head);
  remaining_ = 0;
  state_ = State::body_until_eof;
  unframed_ = true;
  reframe(text, handler);
  return true;
}

/// At a read of a body of which nothing says how it is framed, and where it is over.
void Http1ResponseParser::reframe(std::string_view text, Http1ResponseHandler& handler) {
  if (text.starts_with(kVersionPrefix)) return end_body(false, State::lost, handler);
  if (match_mid_body(text) != MidBody::chunked) return;
  unframed_ = false;
  begin_size();
  if (text.starts_with("\r\n")) state_ = State::chunk_data_end;
}

/// Takes one element of the state machine from `text` at `at` and returns the index behind it.
std::size_t Http1ResponseParser::step(std::string_view text, std::size_t at,
                                      Http1ResponseHandler& handler) {
  switch (state_) {
    case State::head:
      return take_head(text, at, handler);
    case State::body_length:
    case State::body_until_eof:
    case State::chunk_data:
      return take_body(text, at, handler);
    case State::chunk_size:
      return take_size(text, at, handler);
    case State::chunk_extension:
    case State::trailer_line:
      return take_line_rest(text, at);
    case State::chunk_size_pad:
    case State::chunk_size_lf:
    case State::chunk_data_end:
    case State::chunk_data_lf:
    case State::trailer_begin:
    case State::trailer_lf:
      take_mark(text[at], handler);
      return at + 1;
    case State::lost:
    case State::upgraded:
    case State::closed:
      break;
  }
  return text.size();
}

std::size_t Http1ResponseParser::take_head(std::string_view text, std::size_t at,
                                           Http1ResponseHandler& handler) {
  if (head_.empty()) {
    // Some servers send an empty line too many behind a body.
    at = std::min(text.find_first_not_of("\r\n", at), text.size());
    if (at == text.size()) return at;
  }
  const std::size_t lf = text.find('\n', at);
  const std::size_t stop = lf == kNone ? text.size() : lf + 1;
  if (stop - at > kMaxHead - head_.size()) {
    lose(handler);
    return stop;
  }
  head_.append(text.substr(at, stop - at));
  if (!may_be_status_line(head_)) {
    lose(handler);
    return stop;
  }
  if (lf == kNone) return stop;
  const std::string_view line = std::string_view(head_).substr(line_begin_);
  line_begin_ = head_.size();
  if (line == "\n" || line == "\r\n") head_done(handler);
  return stop;
}

void Http1ResponseParser::head_done(Http1ResponseHandler& handler) {
  std::string_view rest = head_;
  const auto next_line = [&rest] {
    const std::size_t lf = rest.find('\n');
    const std::string_view line = without_cr(rest.substr(0, lf));
    rest.remove_prefix(lf + 1);
    return line;
  };
  const std::optional<StatusLine> status = parse_status_line(next_line());
  if (!status) return lose(handler);
  // RFC 9110, 15.2: informational responses come before the final one; 101 is the last of all.
  if (status->status < 200 && status->status != 101) return begin_head();

  BodyFields fields;
  while (!rest.empty()) {
    if (const std::optional<Field> field = parse_field(next_line())) fields.add(*field);
  }
  if (fields.bad_length && !fields.has_transfer_encoding) return lose(handler);
  if (!fields.transfer_codings.empty()) {
    append_element(fields.content_codings, fields.transfer_codings);
  }
  ResponseHead head{};
  head.status = status->status;
  head.content_type = fields.media_type;
  head.content_encoding = fields.content_codings;
  head.chunked = fields.chunked_last;
  if (!fields.has_transfer_encoding) head.content_length = fields.length;
  head.close = fields.close || (status->minor == 0 && !fields.keep_alive);
  if (status->status == 101) head.upgrade = fields.upgrade;
  begin_body(head, handler);
}

/// RFC 9112, 6.3: the length of the body, rules 1 to 8 in their order.
void Http1ResponseParser::begin_body(const ResponseHead& head, Http1ResponseHandler& handler) {
  const int status = head.status;
  const bool tunnel = expect_tunnel_ && status >= 200 && status < 300;
  const bool no_body = expect_no_body_ || status == 204 || status == 304;
  expect_no_body_ = expect_tunnel_ = false;
  const bool until_eof =
      !tunnel && !no_body && status != 101 && !head.chunked && !head.content_length.has_value();
  ResponseHead told = head;
  told.close = head.close || until_eof;
  may_resume_ = head.content_type == kEventStream;
  handler.on_head(told);

  if (status == 101 || tunnel) return end_body(true, State::upgraded, handler);
  if (no_body || head.content_length == std::uint64_t{0}) {
    return end_body(true, State::head, handler);
  }
  remaining_ = head.content_length.value_or(0);
  size_has_digits_ = false;
  state_ = until_eof      ? State::body_until_eof
           : head.chunked ? State::chunk_size
                          : State::body_length;
}

std::size_t Http1ResponseParser::take_body(std::string_view text, std::size_t at,
                                           Http1ResponseHandler& handler) {
  std::size_t size = text.size() - at;
  if (state_ != State::body_until_eof) {
    size = static_cast<std::size_t>(std::min<std::uint64_t>(size, remaining_));
    remaining_ -= size;
  }
  const std::size_t end = at + size;
  handler.on_body(std::as_bytes(std::span(text.data() + at, size)), end);
  if (remaining_ == 0) {
    if (state_ == State::body_length) end_body(true, State::head, handler);
    if (state_ == State::chunk_data) state_ = State::chunk_data_end;
  }
  return end;
}

std::size_t Http1ResponseParser::take_size(std::string_view text, std::size_t at,
                                           Http1ResponseHandler& handler) {
  for (; at < text.size(); ++at) {
    const int digit = hex_value(text[at]);
    if (digit < 0) {
      // The character behind the digits is looked at in the next state.
      state_ = State::chunk_size_pad;
      if (!size_has_digits_) lose(handler);
      return at;
    }
    if (remaining_ >> 56 != 0) {
      lose(handler);
      return at;
    }
    remaining_ = remaining_ << 4 | static_cast<std::uint64_t>(digit);
    size_has_digits_ = true;
  }
  return at;
}

/// The rest of a line that means nothing to gcause: a chunk extension or a trailer field.
std::size_t Http1ResponseParser::take_line_rest(std::string_view text, std::size_t at) {
  const std::size_t lf = text.find('\n', at);
  if (lf == kNone) return text.size();
  if (state_ == State::chunk_extension) {
    size_line_done();
  } else {
    state_ = State::trailer_begin;
  }
  return lf + 1;
}

/// One character of the framing of chunks (RFC 9112, 7.1).
void Http1ResponseParser::take_mark(char c, Http1ResponseHandler& handler) {
  switch (state_) {
    case State::chunk_size_pad:
      if (is_blank(c)) return;
      if (c == ';') {
        state_ = State::chunk_extension;
        return;
      }
      if (c == '\r') {
        state_ = State::chunk_size_lf;
        return;
      }
      return c == '\n' ? size_line_done() : lose(handler);
    case State::chunk_size_lf:
      return c == '\n' ? size_line_done() : lose(handler);
    case State::chunk_data_end:
      if (c == '\r') {
        state_ = State::chunk_data_lf;
        return;
      }
      return c == '\n' ? begin_size() : lose(handler);
    case State::chunk_data_lf:
      return c == '\n' ? begin_size() : lose(handler);
    case State::trailer_begin:
      if (c == '\n') return end_body(true, State::head, handler);
      state_ = c == '\r' ? State::trailer_lf : State::trailer_line;
      return;
    case State::trailer_lf:
      return c == '\n' ? end_body(true, State::head, handler) : lose(handler);
    case State::head:
    case State::body_length:
    case State::body_until_eof:
    case State::chunk_size:
    case State::chunk_extension:
    case State::chunk_data:
    case State::trailer_line:
    case State::lost:
    case State::upgraded:
    case State::closed:
      return;
  }
}

void Http1ResponseParser::begin_size() {
  state_ = State::chunk_size;
  remaining_ = 0;
  size_has_digits_ = false;
}

void Http1ResponseParser::size_line_done() {
  state_ = remaining_ == 0 ? State::trailer_begin : State::chunk_data;
}

void Http1ResponseParser::begin_head() {
  state_ = State::head;
  head_.clear();
  line_begin_ = 0;
}

void Http1ResponseParser::end_body(bool complete, State next, Http1ResponseHandler& handler) {
  begin_head();
  state_ = next;
  unframed_ = false;
  handler.on_end(complete);
}

void Http1ResponseParser::lose(Http1ResponseHandler& handler) {
  if (in_body()) return end_body(false, State::lost, handler);
  begin_head();
  state_ = State::lost;
}

bool Http1ResponseParser::skip(std::uint64_t count, Http1ResponseHandler& handler) {
  if (count == 0 || upgraded() || state_ == State::closed) return true;
  if (state_ == State::body_until_eof) {
    handler.on_body_skipped(count);
    return true;
  }
  if (state_ == State::body_length && count <= remaining_) {
    remaining_ -= count;
    handler.on_body_skipped(count);
    if (remaining_ == 0) end_body(true, State::head, handler);
    return true;
  }
  // The CRLF behind the data of a chunk is known without being seen.
  if (state_ == State::chunk_data && count <= remaining_ + 2) {
    const std::uint64_t of_body = std::min(count, remaining_);
    const std::uint64_t of_line_end = count - of_body;
    remaining_ -= of_body;
    if (of_line_end == 2) {
      begin_size();
    } else if (of_line_end == 1) {
      state_ = State::chunk_data_lf;
    } else if (remaining_ == 0) {
      state_ = State::chunk_data_end;
    }
    handler.on_body_skipped(of_body);
    return true;
  }
  on_gap(handler);
  return false;
}

void Http1ResponseParser::on_eof(Http1ResponseHandler& handler) {
  if (in_body()) return end_body(state_ == State::body_until_eof, State::closed, handler);
  if (upgraded()) return;
  begin_head();
  state_ = State::closed;
}

void Http1ResponseParser::on_gap(Http1ResponseHandler& handler) {
  if (upgraded() || state_ == State::closed) return;
  lose(handler);
}

bool Http1RequestParser::begins_request(std::span<const std::byte> bytes) {
  return match_request_line(as_text(bytes)) == Match::yes;
}

Http1RequestParser::Progress Http1RequestParser::feed(std::span<const std::byte> bytes) {
  Progress progress;
  if (bytes.empty()) return progress;
  const std::string_view text = as_text(bytes);
  if (state_ != State::fields) {
    if (!take_request_line(text)) return progress;
    progress.began = true;
  } else {
    append(text);
  }
  progress.finished = take_fields();
  if (!progress.finished) return progress;
  // What is behind the limit of a head is not told from its body.
  progress.end = text_.size() < kMaxHead ? line_begin_ - span_begin_ : bytes.size();
  end_head();
  return progress;
}

void Http1RequestParser::append(std::string_view text) {
  span_begin_ = text_.size();
  text_.append(text.substr(0, kMaxHead - text_.size()));
}

/// Whether a request line is complete with `text`; then `text_` is the head so far.
bool Http1RequestParser::take_request_line(std::string_view text) {
  const Match alone = match_request_line(text);
  if (state_ == State::body && alone == Match::no) return false;
  // What was kept as the possible beginning of a request line was body, if one begins here.
  if (state_ == State::body || alone == Match::yes) text_.clear();
  append(text);
  Match match = match_request_line(text_);
  if (match == Match::no && alone == Match::partial) {
    text_.clear();
    append(text);
    match = Match::partial;
  }
  if (match == Match::partial && text_.size() == kMaxHead) match = Match::no;
  if (match != Match::yes) {
    state_ = match == Match::partial ? State::request_line : State::body;
    return false;
  }
  state_ = State::fields;
  line_begin_ = text_.find('\n') + 1;
  head_ = RequestHead{text_.substr(0, text_.find(' ')), std::nullopt};
  fields_ = {};
  return true;
}

/// Looks at the complete lines in `text_`. Whether the head is over.
bool Http1RequestParser::take_fields() {
  while (true) {
    const std::size_t lf = text_.find('\n', line_begin_);
    if (lf == kNone) break;
    const std::string_view line =
        without_cr(std::string_view(text_).substr(line_begin_, lf - line_begin_));
    line_begin_ = lf + 1;
    if (line.empty()) return true;
    const std::optional<Field> field = parse_field(line);
    if (!field) continue;
    fields_.add(*field);
    if (field->name != "host" || head_.host) continue;
    if (is_usable_host(field->value)) head_.host = std::string(field->value);
  }
  return text_.size() == kMaxHead;
}

/// RFC 9112, 6.3: a request without any framing has no body.
void Http1RequestParser::end_head() {
  const bool whole = text_.size() < kMaxHead;
  if (whole && !fields_.has_transfer_encoding && !fields_.bad_length) {
    head_.body = fields_.length.value_or(0);
  }
  state_ = State::body;
  text_ = {};
  fields_ = {};
}

}  // namespace gcause
