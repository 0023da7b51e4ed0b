// SPDX-License-Identifier: Apache-2.0
//
// The first byte says which codings the rest has, or, with its highest bit, that the rest is text
// to be coded first; the second how long the pieces are that the body is fed in, and, with its
// highest bit, that a byte of it is changed. What is decoded must stay within the bound. Where
// nothing fails it must be the same however the body is cut, and that which the library makes of
// all of it in one call, or the text.

#include <brotli/decode.h>
#include <brotli/encode.h>
#include <zlib.h>
#include <zstd.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/content_decoder.h"
#include "stream/sse_parser.h"

namespace {

using gcause::ContentDecoder;

constexpr std::array<std::string_view, 8> kCodings = {
    "gzip",          "deflate", "br", "zstd", "gzip, br", "zstd, gzip", "deflate, deflate",
    "br, zstd, gzip"};

void require(bool condition) {
  if (!condition) std::abort();
}

struct Outcome {
  std::string text;
  std::optional<gcause::Undecoded> failure;
};

Outcome decode(std::string_view codings, std::span<const std::byte> body, std::size_t piece) {
  auto decoder = ContentDecoder::make(codings);
  require(decoder.has_value());
  Outcome outcome;
  gcause::SseParser events;
  std::uint64_t bound = ContentDecoder::kFreeOutput;
  for (std::size_t at = 0; at < body.size(); at += piece) {
    const auto part = body.subspan(at, std::min(piece, body.size() - at));
    bound += ContentDecoder::kOutputPerByte * part.size();
    decoder->feed(part, [&](std::span<const std::byte> decoded) {
      require(!decoded.empty());
      outcome.text.append(reinterpret_cast<const char*>(decoded.data()), decoded.size());
      events.feed(decoded, [](const gcause::SseParser::Event&) {});
    });
    require(outcome.text.size() <= bound);
  }
  outcome.failure = decoder->failure();
  return outcome;
}

/// All of `body` in one call, where it is one whole piece of coded data and nothing more.
std::optional<std::string_view> in_one_call(std::string_view coding,
                                            std::span<const std::byte> body) {
  // One for all inputs: it takes longer to make than most of them to decode.
  static std::vector<std::uint8_t> text(std::size_t{1} << 20);
  const auto* in = reinterpret_cast<const std::uint8_t*>(body.data());
  std::size_t size = text.size();
  bool good = false;
  if (coding == "br") {
    good = BrotliDecoderDecompress(body.size(), in, &size, text.data()) ==
           BROTLI_DECODER_RESULT_SUCCESS;
  } else if (coding == "zstd") {
    size = ZSTD_decompress(text.data(), text.size(), in, body.size());
    good = !ZSTD_isError(size);
  } else if (coding == "deflate") {
    uLongf made = text.size();
    good = uncompress(text.data(), &made, in, body.size()) == Z_OK;
    size = made;
  }
  if (!good) return std::nullopt;
  return std::string_view(reinterpret_cast<const char*>(text.data()), size);
}

std::string encode(std::string_view coding, std::string_view text) {
  std::string body(text.size() + 1024, '\0');
  auto* out = reinterpret_cast<std::uint8_t*>(body.data());
  const auto* in = reinterpret_cast<const std::uint8_t*>(text.data());
  std::size_t made = body.size();
  if (coding == "br") {
    require(BrotliEncoderCompress(5, 16, BROTLI_MODE_TEXT, text.size(), in, &made, out));
  } else if (coding == "zstd") {
    made = ZSTD_compress(out, body.size(), in, text.size(), 3);
    require(!ZSTD_isError(made));
  } else {
    z_stream stream{};
    require(deflateInit2(&stream, 6, Z_DEFLATED, MAX_WBITS + (coding == "gzip" ? 16 : 0), 8,
                         Z_DEFAULT_STRATEGY) == Z_OK);
    stream.next_in = const_cast<Bytef*>(in);
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = out;
    stream.avail_out = static_cast<uInt>(body.size());
    require(deflate(&stream, Z_FINISH) == Z_STREAM_END);
    made -= stream.avail_out;
    deflateEnd(&stream);
  }
  body.resize(made);
  return body;
}

void check(std::string_view codings, std::string_view bytes, std::size_t piece,
           const std::string_view* text) {
  const auto body = std::as_bytes(std::span(bytes));
  const Outcome whole = decode(codings, body, std::max<std::size_t>(body.size(), 1));
  const Outcome cut = decode(codings, body, piece);
  const auto too_large = gcause::Undecoded::too_large;
  if (whole.failure != too_large && cut.failure != too_large) {
    require(whole.failure == cut.failure);
    require(whole.failure || whole.text == cut.text);
  }
  require(text == nullptr || (!whole.failure && whole.text == *text));
  const auto expected = in_one_call(codings, body);
  // Windows that the one call takes and a content coding may not have are the only difference.
  require(!expected || whole.failure || whole.text == *expected);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const std::string_view text(reinterpret_cast<const char*>(data) + 2, size - 2);
  const std::size_t piece = 1 + data[1] % 64;
  if ((data[0] & 0x80) == 0) {
    check(kCodings[data[0] % kCodings.size()], text, piece, nullptr);
    return 0;
  }
  const std::string_view coding = kCodings[data[0] % 4];
  std::string body = encode(coding, text);
  const bool change = (data[1] & 0x80) != 0;
  if (change) body[size % body.size()] ^= static_cast<char>(1 + data[1] % 127);
  check(coding, body, piece, change ? nullptr : &text);
  return 0;
}
