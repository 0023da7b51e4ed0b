// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

struct nghttp2_hd_inflater;

namespace gcause {

/// Decodes the header blocks of one direction of an HTTP/2 connection (HPACK, RFC 7541), from its
/// first block or from any later one.
///
/// nghttp2 keeps the table and decodes the strings, but gives up for good at the first index that
/// it does not know. Indexes count from the newest entry, so blocks that were missed make only the
/// *older* entries unknown: each representation is looked at before nghttp2 gets it, and one that
/// refers to an entry that was never seen becomes an unknown field. That an unknown name takes no
/// room in the table makes it hold entries longer than the encoder does, which then does not refer
/// to them.
///
/// The table grows as far as the encoder says, and no further than `kMaxTable`; an encoder with a
/// larger one refers to unknown entries sooner or later. What the decoder's side allowed in its
/// SETTINGS need not be known: an encoder announces what it makes of that in its next block.
class HpackDecoder {
 public:
  static constexpr std::uint32_t kMaxTable = 65536;  ///< bytes as RFC 7541, 4.1 counts them

  /// One field of a block. The views are valid during the call that hands it over.
  struct Field {
    std::string_view name;  ///< empty: not known
    std::string_view value;
  };

  /// Decodes one whole block and calls `on_field(const Field&)` for each field, in order. False:
  /// the block makes no sense, and what was known of the table is forgotten.
  template <typename OnField>
  [[nodiscard]] bool decode(std::span<const std::byte> block, OnField&& on_field) {
    using Target = std::remove_reference_t<OnField>;
    return parse(block, Sink{const_cast<void*>(static_cast<const void*>(std::addressof(on_field))),
                             [](void* target, const Field& field) {
                               (*static_cast<Target*>(target))(field);
                             }});
  }

  /// A block was missed, or a part of one: no entry is where it was.
  void forget() { inflater_.reset(); }

 private:
  struct Sink {
    void* target;
    void (*call)(void* target, const Field& field);
  };
  struct Deleter {
    void operator()(nghttp2_hd_inflater* inflater) const;
  };
  using Bytes = std::span<const std::uint8_t>;

  bool parse(std::span<const std::byte> block, Sink sink);
  bool begin();
  bool take_one(Bytes& rest, Sink sink);
  bool take_size_update(Bytes whole, std::uint32_t size, Sink sink);
  bool inflate(Bytes bytes, Sink sink);

  std::unique_ptr<nghttp2_hd_inflater, Deleter> inflater_;  ///< made at the first block
};

}  // namespace gcause
