// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "stream/content_decoder.h"

namespace gcause {

/// One content coding that is being undone, by the library that knows it. Its memory is allocated
/// with the first byte.
class ContentDecoder::Stage {
 public:
  enum class State : std::uint8_t { running, ended, malformed };

  struct Step {
    std::size_t taken;  ///< bytes of the input
    std::size_t made;   ///< bytes of the output
    State state;        ///< `ended`: what follows is no part of the coded data
  };

  virtual ~Stage() = default;

  /// Takes as much of `input` as there is room for its output, and makes everything of it that can
  /// be read by now. With an empty `input`: hands out what found no room before.
  virtual Step run(std::span<const std::byte> input, std::span<std::byte> output) = 0;
};

/// RFC 1952: one member or several. What follows on the last one is ignored, as clients do.
std::unique_ptr<ContentDecoder::Stage> make_gzip_stage();

/// RFC 9110, section 8.4.1.2: the zlib format (RFC 1950), or, as some servers send it, bare deflate
/// data (RFC 1951).
std::unique_ptr<ContentDecoder::Stage> make_deflate_stage();

/// RFC 7932.
std::unique_ptr<ContentDecoder::Stage> make_brotli_stage();

/// RFC 8878: one frame or several.
std::unique_ptr<ContentDecoder::Stage> make_zstd_stage();

}  // namespace gcause
