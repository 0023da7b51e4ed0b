// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>
#include <vector>

#include "recording/timeline.h"

namespace gcause {

/// Undoes the content codings of one body (RFC 9110, section 8.4.1): gzip, deflate, br, zstd, and
/// several in a row. Takes the body cut anywhere and hands out what each fed span makes readable.
///
/// A decoder does not say which of the fed bytes was needed for which of the decoded ones. A caller
/// that cares feeds one span for each thing that it tells apart, such as the bytes of one arrival:
/// all that a span brings was readable with its last byte, and not with that of the span before.
///
/// The body is hostile. Output is bounded by the input (`kOutputPerByte`, `kFreeOutput`), windows
/// by what the standards allow a content coding to ask for: 32 KiB (gzip, deflate; RFC 1951), 16
/// MiB (br; RFC 7932, section 9.1), 8 MiB (zstd; RFC 9659). What exceeds them, and what is
/// malformed, ends the decoding, and its memory is given back.
class ContentDecoder {
 public:
  /// Codings in a row that are believed.
  static constexpr std::size_t kMaxCodings = 4;
  /// Decoded bytes for each byte of the body, over all codings together. Streams of events with
  /// the same wording reach some 50.
  static constexpr std::uint64_t kOutputPerByte = 128;
  /// Decoded bytes beyond that, in one span or over the body: a single event may well be one long
  /// repetition.
  static constexpr std::uint64_t kFreeOutput = std::uint64_t{4} << 20;

  /// `codings` as Content-Encoding lists them: in the order in which they were applied, in any
  /// case, separated by commas. Nothing if one of them is not known, or if there are too many.
  static std::optional<ContentDecoder> make(std::string_view codings);

  ContentDecoder(ContentDecoder&&) noexcept;
  ContentDecoder& operator=(ContentDecoder&&) noexcept;
  ~ContentDecoder();

  /// Decodes the next bytes of the body and calls `on_bytes(std::span<const std::byte>)` with what
  /// they make readable: once, several times, or not at all. Its argument is valid during the call
  /// only, and the call must not touch this decoder. Bytes behind the end of the coded data are
  /// ignored.
  template <typename OnBytes>
  void feed(std::span<const std::byte> bytes, OnBytes&& on_bytes) {
    using Target = std::remove_reference_t<OnBytes>;
    decode(bytes, Sink{const_cast<void*>(static_cast<const void*>(std::addressof(on_bytes))),
                       [](void* target, std::span<const std::byte> decoded) {
                         (*static_cast<Target*>(target))(decoded);
                       }});
  }

  /// Bytes of the body passed that cannot be fed: nothing behind them can be decoded.
  void skip() { fail(Undecoded::gap); }

  /// Why nothing more will be decoded; nothing while all is well.
  std::optional<Undecoded> failure() const { return failure_; }

  class Stage;

 private:
  struct Sink {
    void* target;
    void (*call)(void* target, std::span<const std::byte> decoded);
  };

  explicit ContentDecoder(std::vector<std::unique_ptr<Stage>> stages);

  void decode(std::span<const std::byte> bytes, Sink sink);
  bool run(std::size_t stage, std::span<const std::byte> bytes, Sink sink);
  bool fail(Undecoded why);

  std::vector<std::unique_ptr<Stage>> stages_;  ///< in the order in which they are undone
  std::uint64_t allowance_ = kFreeOutput;       ///< bytes that may still be decoded
  std::optional<Undecoded> failure_;
};

}  // namespace gcause
