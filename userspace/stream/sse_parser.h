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

/// Takes the bytes of one server-sent event stream, cut anywhere, and hands over each event at the
/// byte that dispatches it. Follows "Parsing an event stream" and "Interpreting an event stream" of
/// the WHATWG HTML standard (9.2.5, 9.2.6), on bytes: only 0x0A and 0x0D end a line, and content is
/// neither decoded nor changed. The events do not depend on where the bytes were cut.
///
/// An event that lies wholly inside one fed span costs no copy and no allocation. Memory is bounded
/// by about three times `max_event_data`, and by 2 KiB where no event is open.
class SseParser {
 public:
  /// Bytes of data that are kept of one event; what lies behind them is counted only.
  static constexpr std::size_t kMaxEventData = 65536;
  /// Bytes that are kept of an event's type.
  static constexpr std::size_t kMaxEventType = 256;

  struct Event {
    std::string_view type;  ///< last `event:` value; empty stands for the standard's "message"
    std::string_view data;  ///< data lines joined by LF; may be empty
    std::size_t end;        ///< index in the fed span just behind the byte that dispatched it
    /// Wire bytes from the first byte of the block to the one that dispatched it. The LF of a CRLF
    /// that ends the block is not among them: the block was over at its CR.
    std::uint64_t bytes;
    bool truncated;  ///< `data` is not complete: over the limit, or in skipped bytes
  };

  explicit SseParser(std::size_t max_event_data = kMaxEventData)
      : max_event_data_(max_event_data) {}

  /// Parses the next bytes of the stream and calls `on_event(const Event&)` for every event that
  /// they dispatch, in order. The views of the event are valid during that call only, and the call
  /// must not touch this parser.
  template <typename OnEvent>
  void feed(std::span<const std::byte> bytes, OnEvent&& on_event) {
    using Target = std::remove_reference_t<OnEvent>;
    parse(bytes,
          Sink{const_cast<void*>(static_cast<const void*>(std::addressof(on_event))),
               [](void* target, const Event& event) { (*static_cast<Target*>(target))(event); }});
  }

  /// `count` bytes of the stream passed that cannot be fed. They count as part of the line that is
  /// open, and what follows them up to its end as the rest of it: an event boundary among them is
  /// not seen. The open event is marked truncated.
  void skip(std::uint64_t count);

  /// Bytes of the open event were skipped, and perhaps its end with them.
  bool may_be_over() const { return has_skipped_; }

  /// Comment lines so far (lines that start with a colon).
  std::uint64_t comments() const { return comments_; }

  /// Forgets everything: the next byte is the first of a new stream.
  void reset();

 private:
  struct Sink {
    void* target;
    void (*call)(void* target, const Event& event);
  };

  void parse(std::span<const std::byte> bytes, Sink sink);
  std::size_t take_byte_order_mark(std::string_view bytes);
  std::string_view complete_line(std::string_view rest);
  void keep_partial_line(std::string_view part);
  void take_field(std::string_view line);
  void add_data(std::string_view value);
  void own_pending();
  void forget_block();

  std::size_t max_event_data_;
  std::uint64_t comments_ = 0;
  std::uint8_t bom_matched_ = 0;  ///< bytes of a leading byte order mark seen so far
  bool bom_possible_ = true;
  bool skip_lf_ = false;  ///< the byte before was a CR: a LF now belongs to the same line end

  // The line that the last span left open.
  bool line_open_ = false;
  bool line_cut_ = false;         ///< `line_` is only its beginning
  bool line_start_lost_ = false;  ///< not even its first byte was seen
  std::string line_;

  // The event block that is being read. A value is a view into the fed span or into `line_` until
  // the span ends, and is copied only if the block goes on behind it.
  bool has_data_ = false;
  bool truncated_ = false;
  bool has_skipped_ = false;
  bool data_owned_ = false;
  bool type_owned_ = false;
  std::string_view data_view_;
  std::string_view type_view_;
  std::string data_;
  std::string type_;
  std::uint64_t block_bytes_ = 0;  ///< of the block, in the spans before this one
};

}  // namespace gcause
