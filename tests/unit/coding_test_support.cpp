// SPDX-License-Identifier: Apache-2.0
#include "coding_test_support.h"

#include <brotli/encode.h>
#include <zlib.h>
#include <zstd.h>

#include <memory>
#include <stdexcept>

namespace gcause::test {
namespace {

constexpr std::size_t kRoom = 65536;

std::vector<std::string> zlib_pieces(const std::vector<std::string>& parts, int window_bits) {
  z_stream stream{};
  deflateInit2(&stream, 6, Z_DEFLATED, window_bits, 8, Z_DEFAULT_STRATEGY);
  std::vector<std::string> pieces;
  const auto piece = [&](const std::string& part, int flush) {
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(part.data()));
    stream.avail_in = static_cast<uInt>(part.size());
    std::string made;
    std::string room(kRoom, '\0');
    do {
      stream.next_out = reinterpret_cast<Bytef*>(room.data());
      stream.avail_out = kRoom;
      ::deflate(&stream, flush);
      made.append(room, 0, kRoom - stream.avail_out);
    } while (stream.avail_out == 0);
    pieces.push_back(made);
  };
  for (const auto& part : parts) piece(part, Z_SYNC_FLUSH);
  piece("", Z_FINISH);
  deflateEnd(&stream);
  return pieces;
}

std::string zstd_piece(ZSTD_CCtx* state, const std::string& part, ZSTD_EndDirective how) {
  ZSTD_inBuffer in{part.data(), part.size(), 0};
  std::string made;
  std::string room(kRoom, '\0');
  while (true) {
    ZSTD_outBuffer out{room.data(), kRoom, 0};
    const std::size_t left = ZSTD_compressStream2(state, &out, &in, how);
    if (ZSTD_isError(left)) throw std::runtime_error(ZSTD_getErrorName(left));
    made.append(room, 0, out.pos);
    if (left == 0 && in.pos == in.size) return made;
  }
}

struct ZstdDeleter {
  void operator()(ZSTD_CCtx* state) const { ZSTD_freeCCtx(state); }
};
using ZstdEncoder = std::unique_ptr<ZSTD_CCtx, ZstdDeleter>;

}  // namespace

std::vector<std::string> gzip(const std::vector<std::string>& parts) {
  return zlib_pieces(parts, MAX_WBITS + 16);
}
std::vector<std::string> deflate(const std::vector<std::string>& parts) {
  return zlib_pieces(parts, MAX_WBITS);
}
std::vector<std::string> bare_deflate(const std::vector<std::string>& parts) {
  return zlib_pieces(parts, -MAX_WBITS);
}

std::vector<std::string> brotli(const std::vector<std::string>& parts) {
  BrotliEncoderState* const state = BrotliEncoderCreateInstance(nullptr, nullptr, nullptr);
  BrotliEncoderSetParameter(state, BROTLI_PARAM_QUALITY, 5);
  std::vector<std::string> pieces;
  const auto piece = [&](const std::string& part, BrotliEncoderOperation how) {
    std::size_t left = part.size();
    const auto* next = reinterpret_cast<const std::uint8_t*>(part.data());
    std::string made;
    do {
      std::size_t none = 0;
      BrotliEncoderCompressStream(state, how, &left, &next, &none, nullptr, nullptr);
      std::size_t size = 0;
      const auto* output = BrotliEncoderTakeOutput(state, &size);
      made.append(reinterpret_cast<const char*>(output), size);
    } while (left > 0 || BrotliEncoderHasMoreOutput(state));
    pieces.push_back(made);
  };
  for (const auto& part : parts) piece(part, BROTLI_OPERATION_FLUSH);
  piece("", BROTLI_OPERATION_FINISH);
  BrotliEncoderDestroyInstance(state);
  return pieces;
}

std::vector<std::string> zstd(const std::vector<std::string>& parts) {
  const ZstdEncoder state(ZSTD_createCCtx());
  std::vector<std::string> pieces;
  for (const auto& part : parts) pieces.push_back(zstd_piece(state.get(), part, ZSTD_e_flush));
  pieces.push_back(zstd_piece(state.get(), "", ZSTD_e_end));
  return pieces;
}

std::string zstd_with_window(const std::string& part, int window_log) {
  const ZstdEncoder state(ZSTD_createCCtx());
  ZSTD_CCtx_setParameter(state.get(), ZSTD_c_windowLog, window_log);
  const std::string begin = zstd_piece(state.get(), part, ZSTD_e_flush);
  return begin + zstd_piece(state.get(), "", ZSTD_e_end);
}

std::string joined(const std::vector<std::string>& pieces) {
  std::string all;
  for (const auto& piece : pieces) all += piece;
  return all;
}

}  // namespace gcause::test
