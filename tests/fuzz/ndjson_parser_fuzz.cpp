// SPDX-License-Identifier: Apache-2.0
//
// The first byte says how long the pieces are that the rest is fed in. The lines must be those of
// the whole in one piece, and those that a plain reading of it gives.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "stream/chunk_rules.h"
#include "stream/ndjson_parser.h"

namespace {

// Small, so that the limit is reached by inputs of the length that a fuzzer tries.
constexpr std::size_t kLimit = 24;

void require(bool condition) {
  if (!condition) std::abort();
}

std::string told(std::string_view data, std::size_t end, std::uint64_t bytes, bool truncated) {
  return std::string(data) + '\0' + std::to_string(end) + ' ' + std::to_string(bytes) +
         (truncated ? '+' : '.');
}

std::vector<std::string> parse(std::span<const std::byte> bytes, std::size_t piece) {
  gcause::NdjsonParser parser(kLimit);
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    const auto part = bytes.subspan(at, std::min(piece, bytes.size() - at));
    parser.feed(part, [&](const gcause::NdjsonParser::Line& line) {
      require(line.end >= 1 && line.end <= part.size() && line.data.size() <= kLimit);
      lines.push_back(told(line.data, at + line.end, line.bytes, line.truncated));
    });
  }
  parser.finish([&](const gcause::NdjsonParser::Line& line) {
    lines.push_back(told(line.data, 0, line.bytes, line.truncated));
  });
  return lines;
}

std::vector<std::string> reference(std::string_view text) {
  std::vector<std::string> lines;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t lf = text.find('\n', at);
    const std::size_t end = lf == std::string_view::npos ? text.size() : lf + 1;
    std::string_view data = text.substr(at, lf == std::string_view::npos ? lf : lf - at);
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!data.empty() && blank(data.front())) data.remove_prefix(1);
    while (!data.empty() && blank(data.back())) data.remove_suffix(1);
    if (!data.empty()) {
      lines.push_back(told(data.substr(0, kLimit), lf == std::string_view::npos ? 0 : end, end - at,
                           data.size() > kLimit));
    }
    at = end;
  }
  return lines;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size == 0) return 0;
  const std::size_t piece = 1 + data[0] % 64;
  const auto bytes = std::as_bytes(std::span(data + 1, size - 1));
  const auto expected = reference({reinterpret_cast<const char*>(data) + 1, size - 1});
  require(parse(bytes, piece) == expected);
  require(parse(bytes, std::max<std::size_t>(bytes.size(), 1)) == expected);

  gcause::NdjsonParser parser;
  const auto ask = [](const gcause::NdjsonParser::Line& line) {
    require(!gcause::role_of_event({}, line.data).name.empty());
    (void)gcause::model_of(line.data);
  };
  parser.feed(bytes, ask);
  parser.skip(bytes.size() % 7);
  parser.feed(bytes, ask);
  parser.finish(ask);
  return 0;
}
