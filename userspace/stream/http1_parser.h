// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "stream/http1_fields.h"

namespace gcause {

/// The media type of server-sent events.
inline constexpr std::string_view kEventStream = "text/event-stream";

/// What the head of a response says about its body. The views are valid during `on_head` only.
struct ResponseHead {
  int status;  ///< 101, or 200 to 599 as a rule; never another 1xx; 0: the head was not seen
  std::string_view content_type;  ///< media type in lower case, without parameters; empty: none
  /// Codings of the content in lower case, as listed; a transfer coding other than chunked counts
  /// as one. Empty: the body can be read as it is.
  std::string_view content_encoding;
  bool chunked;
  /// Only where it rules the body: not beside a Transfer-Encoding.
  std::optional<std::uint64_t> content_length;
  bool close;                ///< the connection ends with this response
  std::string_view upgrade;  ///< of a 101: the protocol that follows, in lower case
};

/// Takes what `Http1ResponseParser` finds. The calls must not touch the parser, except to ask it,
/// and in `on_end` to say what is expected of the next response.
class Http1ResponseHandler {
 public:
  virtual ~Http1ResponseHandler() = default;

  /// A final response began, or the connection was upgraded. `on_end` follows, always.
  virtual void on_head(const ResponseHead& head) = 0;

  /// Some of the body's bytes, without framing: a part of the fed span, never empty. `end` is the
  /// index in the fed span just behind it.
  virtual void on_body(std::span<const std::byte> piece, std::size_t end) = 0;

  /// `count` bytes of the body passed unseen, behind what `on_body` had; see `skip`.
  virtual void on_body_skipped(std::uint64_t count) = 0;

  /// The response is over. `complete`: the framing says that all of it was seen.
  virtual void on_end(bool complete) = 0;
};

/// Takes the bytes that a client reads from one connection, cut anywhere, and finds the HTTP/1.x
/// responses in them (RFC 9112, sections 2.2, 4, 6 and 7). Line ends may be bare LF. Bodies are
/// handed on as parts of the fed span; only a head that is being gathered is kept, up to
/// `kMaxHead` bytes.
///
/// Where the bytes make no sense, or some are missing, the parser is *lost*: it then looks only at
/// the first bytes of each fed span for a status line, because that is where a response begins in
/// practice, and because a body may contain anything. A connection that was in the middle of an
/// event stream is taken up at a read that begins with an event: with a head of status 0.
class Http1ResponseParser {
 public:
  static constexpr std::size_t kMaxHead = 65536;  ///< bytes

  /// Where in the connection's life the first fed byte stands.
  enum class Start { connection_begin, unknown };

  explicit Http1ResponseParser(Start start = Start::connection_begin);

  /// Parses the next bytes that were read.
  void feed(std::span<const std::byte> bytes, Http1ResponseHandler& handler);

  /// `count` bytes of the connection passed that cannot be fed. Where they lie wholly in a body (in
  /// one chunk of it, or in that and the line end behind it) the framing is still known: the body
  /// goes on, and `on_body_skipped` says how many of them were its own. Otherwise does what
  /// `on_gap` does and returns false.
  bool skip(std::uint64_t count, Http1ResponseHandler& handler);

  /// The peer closed the connection. Ends a body that lasts until then as complete, any other as
  /// incomplete. Later bytes are ignored until `reset`.
  void on_eof(Http1ResponseHandler& handler);

  /// An unknown number of bytes is missing. A body in progress ends incomplete.
  void on_gap(Http1ResponseHandler& handler);

  /// Whether the next final response has no body whatever its head says, because the request was
  /// a HEAD. To be said for each request; it holds for one response.
  void expect_no_body(bool yes) { expect_no_body_ = yes; }

  /// Whether a 2xx next turns the connection into a tunnel, because the request was a CONNECT. To
  /// be said for each request; it holds for one response.
  void expect_tunnel(bool yes) { expect_tunnel_ = yes; }

  /// Between `on_head` and `on_end`.
  bool in_body() const;
  bool lost() const { return state_ == State::lost; }
  /// The connection no longer speaks HTTP/1: whatever is fed is ignored.
  bool upgraded() const { return state_ == State::upgraded; }

  /// The next byte is the first of a new connection.
  void reset() { *this = Http1ResponseParser(); }

 private:
  enum class State : std::uint8_t {
    head,         ///< between responses, or in a head
    body_length,  ///< `remaining_` bytes of body to go
    body_until_eof,
    chunk_size,      ///< in the digits of a size line
    chunk_size_pad,  ///< behind the digits
    chunk_extension,
    chunk_size_lf,   ///< behind the CR of a size line
    chunk_data,      ///< `remaining_` bytes of the chunk to go
    chunk_data_end,  ///< at the line end behind the data
    chunk_data_lf,   ///< behind its CR
    trailer_begin,   ///< at the beginning of a trailer line, or of the empty line that ends all
    trailer_line,
    trailer_lf,  ///< behind the CR of the empty line
    lost,
    upgraded,
    closed,
  };

  bool resume(std::string_view text, Http1ResponseHandler& handler);
  void reframe(std::string_view text, Http1ResponseHandler& handler);
  std::size_t step(std::string_view text, std::size_t at, Http1ResponseHandler& handler);
  std::size_t take_head(std::string_view text, std::size_t at, Http1ResponseHandler& handler);
  std::size_t take_body(std::string_view text, std::size_t at, Http1ResponseHandler& handler);
  std::size_t take_size(std::string_view text, std::size_t at, Http1ResponseHandler& handler);
  std::size_t take_line_rest(std::string_view text, std::size_t at);
  void take_mark(char c, Http1ResponseHandler& handler);
  void begin_size();
  void size_line_done();
  void head_done(Http1ResponseHandler& handler);
  void begin_body(const ResponseHead& head, Http1ResponseHandler& handler);
  void begin_head();
  void end_body(bool complete, State next, Http1ResponseHandler& handler);
  void lose(Http1ResponseHandler& handler);

  State state_;
  bool expect_no_body_ = false;
  bool expect_tunnel_ = false;
  bool size_has_digits_ = false;
  /// What was seen last may go on where the place is lost: an event stream, or nothing at all.
  bool may_resume_ = false;
  bool unframed_ = false;        ///< it was taken up at an event: how it is framed is not known
  std::uint64_t remaining_ = 0;  ///< of the body or of the chunk; the size while it is being read
  std::string head_;             ///< the head so far, with its line ends
  std::size_t line_begin_ = 0;   ///< of the last line in `head_`
};

/// The head of a request, as far as gcause needs it.
struct RequestHead {
  std::string method;
  std::optional<std::string> host;  ///< Host field: at most 255 visible ASCII characters
  /// Bytes of the body, known when the head is complete; none where no length says it.
  std::optional<std::uint64_t> body = {};
};

/// Takes the bytes that a client writes to one connection, or that a server reads from it, and
/// finds the heads of HTTP/1.x requests. A head is looked for only at the first byte of a fed span,
/// because clients begin a request with a write of its own; all else is body and is not followed.
/// Only the registered methods count. Of a head `kMaxHead` bytes are looked at.
class Http1RequestParser {
 public:
  static constexpr std::size_t kMaxHead = 16384;  ///< bytes

  /// What one fed span brought; both may come at once.
  struct Progress {
    bool began = false;     ///< a request line was recognised: `head().method` is known
    bool finished = false;  ///< its head is over: `head()` is complete
    std::size_t end = 0;    ///< if finished: index in the fed span behind the head
  };

  /// Whether the bytes begin with a whole request line.
  static bool begins_request(std::span<const std::byte> bytes);

  Progress feed(std::span<const std::byte> bytes);

  /// Bytes are missing: forgets the head that is being gathered.
  void on_gap() { state_ = State::body; }

  /// The head of the request that began last.
  const RequestHead& head() const { return head_; }

  /// The next byte is the first of a new connection.
  void reset() { *this = Http1RequestParser(); }

 private:
  enum class State : std::uint8_t {
    body,          ///< no head in progress
    request_line,  ///< what was fed may be the beginning of a request line
    fields,
  };

  void append(std::string_view text);
  bool take_request_line(std::string_view text);
  bool take_fields();
  void end_head();

  State state_ = State::body;
  std::string text_;            ///< the head so far
  std::size_t span_begin_ = 0;  ///< of the fed span in `text_`
  std::size_t line_begin_ = 0;  ///< of the first line in `text_` that was not looked at
  RequestHead head_;
  BodyFields fields_;
};

}  // namespace gcause
