// SPDX-License-Identifier: Apache-2.0
//
// The first byte says how long the pieces are that the rest is fed in. The events must be the same
// as those of the whole in one piece, and as those of the standard read literally, and the rules for
// chunks must stand whatever they hold.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sse_reference.h"
#include "stream/chunk_rules.h"
#include "stream/sse_parser.h"

namespace {

// Small, so that the limit is reached by inputs of the length that a fuzzer tries.
constexpr std::size_t kLimit = 48;
constexpr std::size_t kTypeLimit = gcause::SseParser::kMaxEventType;

using gcause::test::Outcome;

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
      outcome.events.push_back({std::string(event.type), std::string(event.data), at + event.end,
                                event.bytes, event.truncated});
    });
  }
  outcome.comments = parser.comments();
  return outcome;
}

/// Types are kept to a limit that the standard does not have.
Outcome expected_of(const std::string& stream) {
  Outcome outcome = gcause::test::sse_reference(stream, kLimit);
  for (auto& event : outcome.events) event.type.resize(std::min(event.type.size(), kTypeLimit));
  return outcome;
}

void check_rules(std::span<const std::byte> bytes) {
  gcause::SseParser parser;
  parser.feed(bytes, [](const gcause::SseParser::Event& event) {
    const gcause::EventRole role = gcause::role_of_event(event.type, event.data);
    require(!role.name.empty());
    require(role.kind != gcause::EventClass::done_marker || role.last);
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
  const Outcome expected = expected_of({reinterpret_cast<const char*>(data) + 1, size - 1});
  require(parse(bytes, piece) == expected);
  require(parse(bytes, std::max<std::size_t>(bytes.size(), 1)) == expected);
  check_rules(bytes);
  return 0;
}
