// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

namespace gcause {

/// Takes the bytes of one stream of newline-delimited JSON, cut anywhere, and hands over each line
/// at the LF that ends it. A CR in front of the LF belongs to the line end; lines that are empty or
/// blank are none. What a line holds is neither checked nor changed, and the lines do not depend on
/// where the bytes were cut.
///
/// A line that lies wholly inside one fed span costs no copy and no allocation. Memory is bounded
/// by `max_line`, and by 1 KiB where no line is open.
class NdjsonParser {
 public:
  /// Bytes that are kept of a line; what lies behind them is counted only.
  static constexpr std::size_t kMaxLine = 65536;

  struct Line {
    std::string_view data;  ///< without the white space around it; never empty
    std::size_t end;        ///< index in the fed span just behind the byte that ended it
    std::uint64_t bytes;    ///< of the whole line, its end included
    bool truncated;         ///< `data` is not complete: over the limit, or in skipped bytes
  };

  explicit NdjsonParser(std::size_t max_line = kMaxLine) : max_line_(max_line) {}

  /// Parses the next bytes of the stream and calls `on_line(const Line&)` for every line that they
  /// end, in order. The view is valid during that call only, and the call must not touch this
  /// parser.
  template <typename OnLine>
  void feed(std::span<const std::byte> bytes, OnLine&& on_line) {
    parse(bytes, sink_of(on_line));
  }

  /// The stream is over: calls `on_line`, with an `end` of 0, for a last line without a LF. Readers
  /// take it for a line like the others.
  template <typename OnLine>
  void finish(OnLine&& on_line) {
    end_of_stream(sink_of(on_line));
  }

  /// `count` bytes of the stream passed that cannot be fed. They count as part of the line that is
  /// open, and what follows them up to its end as the rest of it. That line is truncated; if not
  /// even its beginning was seen, it is none.
  void skip(std::uint64_t count);

 private:
  struct Sink {
    void* target;
    void (*call)(void* target, const Line& line);
  };

  template <typename OnLine>
  static Sink sink_of(OnLine& on_line) {
    return {const_cast<void*>(static_cast<const void*>(std::addressof(on_line))),
            [](void* target, const Line& line) { (*static_cast<OnLine*>(target))(line); }};
  }

  void parse(std::span<const std::byte> bytes, Sink sink);
  void end_of_stream(Sink sink);
  void keep(std::string_view part);
  void end_line(std::string_view rest, std::size_t end, std::uint64_t bytes, Sink sink);

  std::size_t max_line_;

  // The line that the last span left open.
  bool open_ = false;
  bool truncated_ = false;   ///< `line_` is only its beginning
  bool in_gap_ = false;      ///< bytes of it are missing: what follows does not join on
  bool start_lost_ = false;  ///< not even its first byte was seen
  std::uint64_t bytes_ = 0;
  std::string line_;
};

}  // namespace gcause
