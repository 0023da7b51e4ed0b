// SPDX-License-Identifier: Apache-2.0
#include "stream/content_decoder.h"

#include <algorithm>
#include <array>
#include <utility>

#include "stream/coding_stages.h"

namespace gcause {
namespace {

/// Output of one call of a library; it lies on the stack, once for each coding.
constexpr std::size_t kBuffer = 16384;

std::string_view trimmed(std::string_view text) {
  const std::size_t begin = text.find_first_not_of(" \t");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t") - begin + 1);
}

bool equals_ignoring_case(std::string_view text, std::string_view lower_case) {
  return std::ranges::equal(text, lower_case, [](char a, char b) {
    return (a >= 'A' && a <= 'Z' ? static_cast<char>(a | 0x20) : a) == b;
  });
}

}  // namespace

ContentDecoder::ContentDecoder(std::vector<std::unique_ptr<Stage>> stages)
    : stages_(std::move(stages)) {}
ContentDecoder::ContentDecoder(ContentDecoder&&) noexcept = default;
ContentDecoder& ContentDecoder::operator=(ContentDecoder&&) noexcept = default;
ContentDecoder::~ContentDecoder() = default;

std::optional<ContentDecoder> ContentDecoder::make(std::string_view codings) {
  std::vector<std::unique_ptr<Stage>> stages;
  while (!codings.empty()) {
    const std::size_t comma = codings.find(',');
    const std::string_view coding = trimmed(codings.substr(0, comma));
    codings = comma == std::string_view::npos ? std::string_view() : codings.substr(comma + 1);
    const auto is = [&](std::string_view name) { return equals_ignoring_case(coding, name); };
    if (coding.empty() || is("identity")) continue;
    if (stages.size() == kMaxCodings) return std::nullopt;
    if (is("gzip") || is("x-gzip")) {
      stages.push_back(make_gzip_stage());
    } else if (is("deflate")) {
      stages.push_back(make_deflate_stage());
    } else if (is("br")) {
      stages.push_back(make_brotli_stage());
    } else if (is("zstd")) {
      stages.push_back(make_zstd_stage());
    } else {
      return std::nullopt;
    }
  }
  std::ranges::reverse(stages);
  return ContentDecoder(std::move(stages));
}

void ContentDecoder::decode(std::span<const std::byte> bytes, Sink sink) {
  if (failure_ || bytes.empty()) return;
  allowance_ = std::min(allowance_, kFreeOutput) + kOutputPerByte * bytes.size();
  run(0, bytes, sink);
}

/// Gives `bytes` to the stage and what it makes of them to the next one. False: it failed, and
/// there are no stages any more.
bool ContentDecoder::run(std::size_t stage, std::span<const std::byte> bytes, Sink sink) {
  if (stage == stages_.size()) {
    sink.call(sink.target, bytes);
    return true;
  }
  std::array<std::byte, kBuffer> buffer;
  while (true) {
    const Stage::Step step = stages_[stage]->run(bytes, buffer);
    bytes = bytes.subspan(step.taken);
    if (step.made > allowance_) return fail(Undecoded::too_large);
    allowance_ -= step.made;
    if (step.made > 0 && !run(stage + 1, std::span(buffer).first(step.made), sink)) return false;
    if (step.state == Stage::State::malformed) return fail(Undecoded::malformed);
    if (step.state == Stage::State::ended) return true;
    // A full buffer may not be all that there is; otherwise a stage takes all that it is given.
    if (step.made < buffer.size() && bytes.empty()) return true;
    if (step.made == 0 && step.taken == 0) {
      return bytes.empty() ? true : fail(Undecoded::malformed);
    }
  }
}

bool ContentDecoder::fail(Undecoded why) {
  if (!failure_) failure_ = why;
  stages_.clear();
  return false;
}

}  // namespace gcause
