// SPDX-License-Identifier: Apache-2.0
//
// The first byte says how long the pieces are that the rest is fed in. The events must be the same
// as those of the whole in one piece, and the rules for chunks must stand whatever they hold.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/chunk_rules.h"
#include "stream/sse_parser.h"

namespace {

// Small, so that the limit is reached by inputs of the length that a fuzzer tries.
constexpr std::size_t kLimit = 48;

struct Outcome {
  std::vector<std::string> events;
  std::uint64_t comments = 0;
  bool operator==(const Outcome&) const = default;
};

void require(bool condition) {
  if (!condition) std::abort();
}

Outcome parse(std::span<const std::byte> bytes, std::size_t piece) {
  gcause::SseParser parser(kLimit);
  Outcome outcome;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    parser.feed(part, [&](const gcause::SseParser::Event& event) {
      require(event.end >= 1 && event.end <= part.size());
      require(event.data.size() <= kLimit && event.bytes <= bytes.size());
      outcome.events.push_back(std::string(event.type) + '\0' + std::string(event.data) + '\0' +
                               std::to_string(at + event.end) + ' ' + std::to_string(event.bytes) +
                               (event.truncated ? '+' : '.'));
    });
  }
  outcome.comments = parser.comments();
  return outcome;
}

void check_rules(std::span<const std::byte> bytes) {
  gcause::SseParser parser;
  parser.feed(bytes, [](const gcause::SseParser::Event& event) {
    const gcause::EventClass found = gcause::classify_event(event.type, event.data);
    const bool ends = gcause::ends_stream(event.type, event.data);
    require(!ends || found != gcause::EventClass::chunk);
    const auto model = gcause::model_of(event.data);
    require(!model || (!model->empty() && model->size() <= gcause::kMaxModelName));
  });
  parser.skip(bytes.size() % 7);
  parser.feed(bytes, [](const gcause::SseParser::Event&) {});
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0] % 64;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  require(parse(bytes, piece) == parse(bytes, std::max<std::size_t>(bytes.size(), 1)));
  check_rules(bytes);
  return 0;
}
