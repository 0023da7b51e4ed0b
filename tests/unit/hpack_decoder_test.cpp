// SPDX-License-Identifier: Apache-2.0
#include "stream/hpack_decoder.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "http2_test_support.h"

using gcause::HpackDecoder;
using gcause::test::Deflater;
using gcause::test::Headers;

namespace {

/// The fields of a block; an unknown name is empty.
std::optional<Headers> decode(HpackDecoder& decoder, const std::string& block) {
  Headers fields;
  const bool good =
      decoder.decode(std::as_bytes(std::span(block)), [&](const HpackDecoder::Field& field) {
        fields.emplace_back(field.name, field.value);
      });
  return good ? std::optional(fields) : std::nullopt;
}

std::string bytes(std::initializer_list<int> values) {
  std::string text;
  for (const int value : values) text += static_cast<char>(value);
  return text;
}

const Headers kHead = {{":status", "200"}, {"content-type", "text/event-stream"}, {"x-id", "7"}};

}  // namespace

TEST_CASE("HPACK: the examples of RFC 7541, appendix C.4, with Huffman coding") {
  HpackDecoder decoder;
  CHECK(decode(decoder, bytes({0x82, 0x86, 0x84, 0x41, 0x8C, 0xF1, 0xE3, 0xC2, 0xE5, 0xF2, 0x3A,
                               0x6B, 0xA0, 0xAB, 0x90, 0xF4, 0xFF})) ==
        Headers{{":method", "GET"},
                {":scheme", "http"},
                {":path", "/"},
                {":authority", "www.example.com"}});
  CHECK(decode(decoder, bytes({0x82, 0x86, 0x84, 0xBE, 0x58, 0x86, 0xA8, 0xEB, 0x10, 0x64, 0x9C,
                               0xBF})) == Headers{{":method", "GET"},
                                                  {":scheme", "http"},
                                                  {":path", "/"},
                                                  {":authority", "www.example.com"},
                                                  {"cache-control", "no-cache"}});
  CHECK(decode(decoder, bytes({0x82, 0x87, 0x85, 0xBF, 0x40, 0x88, 0x25, 0xA8, 0x49, 0xE9, 0x5B,
                               0xA9, 0x7D, 0x7F, 0x89, 0x25, 0xA8, 0x49, 0xE9, 0x5B, 0xB8, 0xE8,
                               0xB4, 0xBF})) == Headers{{":method", "GET"},
                                                        {":scheme", "https"},
                                                        {":path", "/index.html"},
                                                        {":authority", "www.example.com"},
                                                        {"custom-key", "custom-value"}});
}

TEST_CASE("HPACK: from a later block on, only what refers to missed entries is unknown") {
  Deflater deflater;
  deflater(kHead);
  HpackDecoder decoder;
  // All but the status refer to the table of the first block.
  CHECK(decode(decoder, deflater(kHead)) == Headers{{":status", "200"}, {"", ""}, {"", ""}});
  // A new value for a name that is in the table: the name is unknown, and the entry counts.
  Headers changed = kHead;
  changed[2].second = "8";
  CHECK(decode(decoder, deflater(changed)) == Headers{{":status", "200"}, {"", ""}, {"", "8"}});
  // Now x-id: 8 is the newest entry, and content-type one further than before.
  CHECK(decode(decoder, deflater(changed)) == Headers{{":status", "200"}, {"", ""}, {"", "8"}});
  const Headers fresh = {{"x-new", "1"}};
  CHECK(decode(decoder, deflater(fresh)) == fresh);
  CHECK(decode(decoder, deflater(fresh)) == fresh);
  CHECK(decode(decoder, deflater(changed)) == Headers{{":status", "200"}, {"", ""}, {"", "8"}});
}

TEST_CASE("HPACK: an entry larger than the table empties it, and what is older stays unknown") {
  HpackDecoder decoder;
  const std::string filler(5000, 'v');
  Deflater deflater;
  CHECK(decode(decoder, deflater({{"x-a", "1"}})) == Headers{{"x-a", "1"}});
  const std::string literal = bytes({0x40, 1, 'b', 0x7F, 0x89, 0x26}) + filler;  // 127 + 9 + 38 * 128
  CHECK(decode(decoder, literal) == Headers{{"b", filler}});
  CHECK(decode(decoder, bytes({0xBE})) == Headers{{"", ""}});
}

TEST_CASE("HPACK: a table beyond the limit makes old entries unknown, never wrong") {
  constexpr std::size_t kLarge = 4 * HpackDecoder::kMaxTable;
  Deflater deflater(kLarge);
  deflater.change_table_size(kLarge);
  HpackDecoder decoder;
  const Headers old = {{"x-old", "1"}};
  CHECK(decode(decoder, deflater(old)) == old);  // with an update to the large size in front
  CHECK(decode(decoder, deflater(old)) == old);
  const Headers filler = {{"x-filler", std::string(3000, 'v')}};
  const auto used = HpackDecoder::kMaxTable / 3000 + 1;
  for (std::size_t i = 0; i < used; ++i) {
    Headers next = filler;
    next[0].second += std::to_string(i);
    REQUIRE(decode(decoder, deflater(next)) == next);
  }
  CHECK(decode(decoder, deflater(old)) == Headers{{"", ""}});
  const Headers fresh = {{"x-fresh", "2"}};
  CHECK(decode(decoder, deflater(fresh)) == fresh);
  CHECK(decode(decoder, deflater(fresh)) == fresh);
}

TEST_CASE("HPACK: what makes no sense is refused, and what follows is decoded as after a miss") {
  const auto bad = GENERATE(as<std::string>(), "\x80",          // index 0
                            "\xFF\xFF\xFF\xFF\xFF\xFF\xFF",     // a number without end
                            "\xFF\x80\x80\x80\x80\x10",         // beyond 32 bits
                            "\x40",                             // without a name
                            "\x40\x05" "abc",                   // cut in its name
                            "\x40\x01" "a\x05" "bc",            // cut in its value
                            "\x40\x01" "a",                     // without a value
                            "\x41\x81\x00",                     // Huffman padding that is none
                            "\x3F");                            // cut in an update of the table
  const std::string block = bad == "\x41\x81" ? std::string("\x41\x81\x00", 3) : bad;
  HpackDecoder decoder;
  Deflater deflater;
  const Headers kept = {{"x-a", "1"}};
  REQUIRE(decode(decoder, deflater(kept)) == kept);
  CHECK(decode(decoder, block) == std::nullopt);
  CHECK(decode(decoder, deflater(kept)) == Headers{{"", ""}});
  const Headers fresh = {{"x-b", "1"}};
  CHECK(decode(decoder, deflater(fresh)) == fresh);
  CHECK(decode(decoder, deflater(fresh)) == fresh);
}

namespace {

struct RandomBlocks {
  std::size_t first;         // the number of the first block that is decoded
  std::size_t largest_table;
  std::uint64_t known = 0;
  std::uint64_t unknown = 0;

  void run(unsigned seed);
};

void RandomBlocks::run(unsigned seed) {
  std::mt19937 random(seed);
  const auto pick = [&](std::size_t count) { return random() % count; };
  const std::vector<std::string> names = {":status", "content-type", "host",
                                          "x-a",     "x-bc",         "a-name-of-some-length"};
  Deflater deflater(largest_table);
  HpackDecoder decoder;
  for (std::size_t block = 0; block < 40; ++block) {
    if (pick(6) == 0) deflater.change_table_size(pick(3) == 0 ? pick(300) : largest_table);
    Headers headers;
    for (auto count = pick(6); count > 0; --count) {
      std::string value = std::to_string(pick(5));
      if (pick(12) == 0) value.append(pick(5000), 'z');
      headers.emplace_back(names[pick(names.size())], value);
    }
    const auto encoded = deflater(headers, pick(8) == 0);
    if (block < first) continue;
    const auto decoded = decode(decoder, encoded);
    INFO("seed " << seed << ", block " << block << ", from " << first);
    REQUIRE(decoded.has_value());
    REQUIRE(decoded->size() == headers.size());
    for (std::size_t i = 0; i < headers.size(); ++i) {
      const auto& [name, value] = (*decoded)[i];
      ++(name.empty() ? unknown : known);
      if (!name.empty()) REQUIRE((*decoded)[i] == headers[i]);
      if (!value.empty()) REQUIRE(value == headers[i].second);
    }
  }
}

}  // namespace

TEST_CASE("HPACK: random blocks from the first one on, all fields right") {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    RandomBlocks blocks{0, seed % 2 ? 4096 : std::size_t{HpackDecoder::kMaxTable}};
    blocks.run(seed);
    CHECK(blocks.unknown == 0);
    CHECK(blocks.known > 0);
  }
}

TEST_CASE("HPACK: random blocks from a later one on, all fields right or unknown") {
  std::uint64_t known = 0, unknown = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    RandomBlocks blocks{seed % 20, seed % 3 ? 4096 : std::size_t{4} * HpackDecoder::kMaxTable};
    blocks.run(seed);
    known += blocks.known;
    unknown += blocks.unknown;
  }
  CHECK(known > 3 * unknown);
  CHECK(unknown > 1000);
}
