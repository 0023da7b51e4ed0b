// SPDX-License-Identifier: Apache-2.0
#include "stream/coding_stages.h"

#include <brotli/decode.h>
#include <zlib.h>
#include <zstd.h>

#include <array>
#include <new>

namespace gcause {
namespace {

using Stage = ContentDecoder::Stage;
using State = Stage::State;
using Input = std::span<const std::byte>;
using Output = std::span<std::byte>;

/// A library that has no memory to begin with is as good as none.
template <typename T>
T* or_out_of_memory(T* made) {
  if (made == nullptr) throw std::bad_alloc();
  return made;
}

/// What gzip and deflate have in common.
class Inflater {
 public:
  /// `window_bits`: as inflateInit2 of zlib takes them; they also say which format it is.
  explicit Inflater(int window_bits) {
    if (inflateInit2(&stream_, window_bits) != Z_OK) throw std::bad_alloc();
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;
  ~Inflater() { inflateEnd(&stream_); }

  Stage::Step run(Input input, Output output) {
    // zlib does not write to its input.
    stream_.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(input.data()));
    stream_.avail_in = static_cast<uInt>(input.size());
    stream_.next_out = reinterpret_cast<Bytef*>(output.data());
    stream_.avail_out = static_cast<uInt>(output.size());
    const int result = inflate(&stream_, Z_SYNC_FLUSH);
    State state = State::malformed;
    // Z_BUF_ERROR: there was nothing to do.
    if (result == Z_OK || result == Z_BUF_ERROR) state = State::running;
    if (result == Z_STREAM_END) state = State::ended;
    return {input.size() - stream_.avail_in, output.size() - stream_.avail_out, state};
  }

  void begin_member() { inflateReset(&stream_); }

 private:
  z_stream stream_{};
};

constexpr int kGzipOnly = MAX_WBITS + 16;
constexpr int kZlibOnly = MAX_WBITS;
constexpr int kBareDeflate = -MAX_WBITS;

class GzipStage final : public Stage {
 public:
  Step run(Input input, Output output) override {
    if (!inflater_) inflater_ = std::make_unique<Inflater>(kGzipOnly);
    if (between_members_) {
      if (input.empty()) return {0, 0, State::running};
      if (input.front() != kMagic) return {0, 0, State::ended};
      inflater_->begin_member();
      between_members_ = false;
    }
    Step step = inflater_->run(input, output);
    if (step.state == State::ended) {
      between_members_ = true;
      step.state = State::running;
    }
    return step;
  }

 private:
  static constexpr std::byte kMagic{0x1F};

  std::unique_ptr<Inflater> inflater_;
  bool between_members_ = false;
};

class DeflateStage final : public Stage {
 public:
  Step run(Input input, Output output) override {
    if (inflater_) return inflater_->run(input, output);
    std::size_t taken = 0;
    while (head_size_ < head_.size() && taken < input.size()) head_[head_size_++] = input[taken++];
    if (head_size_ < head_.size()) return {taken, 0, State::running};
    inflater_ = std::make_unique<Inflater>(is_zlib_head() ? kZlibOnly : kBareDeflate);
    // Two bytes of input do not fill the output.
    Step step = inflater_->run(head_, output);
    step.taken = taken;
    return step;
  }

 private:
  /// RFC 1950, section 2.2. Bare deflate data does not look like it: it would have to begin with a
  /// stored block and something other than zeros in the padding behind the block's type.
  bool is_zlib_head() const {
    const auto method = std::to_integer<unsigned>(head_[0]);
    const auto flags = std::to_integer<unsigned>(head_[1]);
    return (method & 0x0F) == 8 && method >> 4 <= 7 && (method * 256 + flags) % 31 == 0;
  }

  std::array<std::byte, 2> head_{};
  std::size_t head_size_ = 0;
  std::unique_ptr<Inflater> inflater_;
};

struct BrotliDeleter {
  void operator()(BrotliDecoderState* state) const { BrotliDecoderDestroyInstance(state); }
};

class BrotliStage final : public Stage {
 public:
  Step run(Input input, Output output) override {
    // Without BROTLI_DECODER_PARAM_LARGE_WINDOW a window above that of RFC 7932 is malformed.
    if (!state_) {
      state_.reset(or_out_of_memory(BrotliDecoderCreateInstance(nullptr, nullptr, nullptr)));
    }
    std::size_t input_left = input.size();
    std::size_t output_left = output.size();
    const auto* next_in = reinterpret_cast<const std::uint8_t*>(input.data());
    auto* next_out = reinterpret_cast<std::uint8_t*>(output.data());
    const BrotliDecoderResult result = BrotliDecoderDecompressStream(
        state_.get(), &input_left, &next_in, &output_left, &next_out, nullptr);
    State state = State::running;
    if (result == BROTLI_DECODER_RESULT_ERROR) state = State::malformed;
    if (result == BROTLI_DECODER_RESULT_SUCCESS) state = State::ended;
    return {input.size() - input_left, output.size() - output_left, state};
  }

 private:
  std::unique_ptr<BrotliDecoderState, BrotliDeleter> state_;
};

/// RFC 9659: a decoder of this coding need not support more than 8 MiB, and a sender must not ask
/// for it.
constexpr int kMaxZstdWindowLog = 23;

struct ZstdDeleter {
  void operator()(ZSTD_DStream* state) const { ZSTD_freeDStream(state); }
};

class ZstdStage final : public Stage {
 public:
  Step run(Input input, Output output) override {
    if (!state_) {
      state_.reset(or_out_of_memory(ZSTD_createDStream()));
      ZSTD_DCtx_setParameter(state_.get(), ZSTD_d_windowLogMax, kMaxZstdWindowLog);
    }
    ZSTD_inBuffer in{input.data(), input.size(), 0};
    ZSTD_outBuffer out{output.data(), output.size(), 0};
    const std::size_t result = ZSTD_decompressStream(state_.get(), &out, &in);
    return {in.pos, out.pos, ZSTD_isError(result) ? State::malformed : State::running};
  }

 private:
  std::unique_ptr<ZSTD_DStream, ZstdDeleter> state_;
};

}  // namespace

std::unique_ptr<Stage> make_gzip_stage() { return std::make_unique<GzipStage>(); }
std::unique_ptr<Stage> make_deflate_stage() { return std::make_unique<DeflateStage>(); }
std::unique_ptr<Stage> make_brotli_stage() { return std::make_unique<BrotliStage>(); }
std::unique_ptr<Stage> make_zstd_stage() { return std::make_unique<ZstdStage>(); }

}  // namespace gcause
