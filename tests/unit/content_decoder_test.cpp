// SPDX-License-Identifier: Apache-2.0
#include "stream/content_decoder.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <chrono>
#include <random>
#include <string>
#include <vector>

#include "allocated_bytes.h"
#include "coding_test_support.h"

namespace gcause {
namespace {

using test::allocated_bytes;
using test::joined;
using Pieces = std::vector<std::string>;

struct Coding {
  std::string name;
  test::Encoder encode;
};

const std::vector<Coding> kCodings = {{"gzip", test::gzip},         {"deflate", test::deflate},
                                      {"deflate", test::bare_deflate}, {"br", test::brotli},
                                      {"zstd", test::zstd}};

ContentDecoder decoder(const std::string& codings) {
  auto made = ContentDecoder::make(codings);
  REQUIRE(made);
  return *std::move(made);
}

std::string feed(ContentDecoder& decoder, std::string_view bytes) {
  // A copy of its own, so that the address sanitizer sees what is kept of it.
  const std::vector<char> copy(bytes.begin(), bytes.end());
  std::string text;
  decoder.feed(std::as_bytes(std::span(copy)), [&](std::span<const std::byte> decoded) {
    REQUIRE_FALSE(decoded.empty());
    text.append(reinterpret_cast<const char*>(decoded.data()), decoded.size());
  });
  return text;
}

std::string decoded(const std::string& codings, std::string_view bytes, std::size_t every) {
  auto d = decoder(codings);
  std::string text;
  for (std::size_t at = 0; at < bytes.size(); at += every) text += feed(d, bytes.substr(at, every));
  CHECK_FALSE(d.failure());
  return text;
}

/// Events as a model server writes them.
Pieces events(std::mt19937& random, int count) {
  Pieces parts;
  for (int i = 0; i < count; ++i) {
    std::string word;
    for (auto letters = random() % 9; letters > 0; --letters) {
      word += static_cast<char>('a' + random() % 26);
    }
    parts.push_back("data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\",\"choices\":"
                    "[{\"index\":0,\"delta\":{\"content\":\"" + word + "\"}}]}\n\n");
  }
  return parts;
}

TEST_CASE("a coding is undone wherever the body is cut", "[codings]") {
  std::mt19937 random(7);
  const Pieces parts = events(random, 5);
  for (const auto& coding : kCodings) {
    const std::string body = joined(coding.encode(parts));
    INFO(coding.name << ", " << body.size() << " bytes");
    for (std::size_t cut = 0; cut <= body.size(); ++cut) {
      auto d = decoder(coding.name);
      std::string text = feed(d, std::string_view(body).substr(0, cut));
      text += feed(d, std::string_view(body).substr(cut));
      REQUIRE(text == joined(parts));
      REQUIRE_FALSE(d.failure());
    }
    CHECK(decoded(coding.name, body, 1) == joined(parts));
  }
}

TEST_CASE("what was flushed can be read with the last byte of its piece, whole or byte by byte",
          "[codings]") {
  std::mt19937 random(8);
  for (const auto& coding : kCodings) {
    INFO(coding.name);
    const Pieces parts = events(random, 200);
    const Pieces pieces = coding.encode(parts);
    auto whole = decoder(coding.name);
    auto bytewise = decoder(coding.name);
    for (std::size_t i = 0; i < parts.size(); ++i) {
      REQUIRE(feed(whole, pieces[i]) == parts[i]);
      std::string text;
      for (const char& c : pieces[i]) text += feed(bytewise, {&c, 1});
      REQUIRE(text == parts[i]);
    }
    CHECK(feed(whole, pieces.back()).empty());
    CHECK_FALSE(whole.failure());
  }
}

TEST_CASE("long bodies of all kinds, cut at random", "[codings]") {
  std::mt19937 random(9);
  for (int round = 0; round < 60; ++round) {
    const auto& coding = kCodings[static_cast<std::size_t>(round) % kCodings.size()];
    Pieces parts;
    std::size_t size = 0;
    while (size < 300'000) {
      std::string part(random() % 60'000, '\0');
      const auto letters = 1 + random() % 200;
      for (auto& c : part) c = static_cast<char>(random() % letters);
      size += part.size();
      parts.push_back(part);
    }
    const std::string body = joined(coding.encode(parts));
    auto d = decoder(coding.name);
    std::string text;
    for (std::size_t at = 0; at < body.size();) {
      const std::size_t piece = random() % (round % 2 == 0 ? 20'000 : 700);
      text += feed(d, std::string_view(body).substr(at, piece));
      at += piece;
    }
    INFO(coding.name << ", round " << round);
    REQUIRE(text == joined(parts));
    REQUIRE_FALSE(d.failure());
  }
}

TEST_CASE("codings in a row are undone from the last to the first", "[codings]") {
  std::mt19937 random(10);
  const Pieces parts = events(random, 20);
  const std::string text = joined(parts);
  const std::string twice = joined(test::brotli({joined(test::gzip({text}))}));
  for (const std::size_t every : {1, 2, 7, 4096}) {
    CHECK(decoded("gzip, br", twice, every) == text);
    CHECK(decoded("GZIP ,identity,,\tBr ", twice, every) == text);
    CHECK(decoded("gzip, gzip", joined(test::gzip(test::gzip(parts))), every) == text);
    const std::string four = joined(test::zstd({joined(test::deflate({twice}))}));
    CHECK(decoded("gzip, br, deflate, zstd", four, every) == text);
  }
  // Flushed all the way through, each event is there with its piece.
  auto d = decoder("gzip, br");
  const Pieces pieces = test::brotli(test::gzip(parts));
  for (std::size_t i = 0; i < parts.size(); ++i) CHECK(feed(d, pieces[i]) == parts[i]);
}

TEST_CASE("names of codings", "[codings]") {
  for (const auto* known : {"", "identity", "gzip", "x-gzip", "X-GZIP", "deflate", "br", "zstd",
                            " gzip\t", "gzip,br", "gzip, identity"}) {
    INFO(known);
    CHECK(ContentDecoder::make(known));
  }
  for (const auto* unknown : {"compress", "x-compress", "dcb", "dcz", "gzip br", "gzip;q=1", "bro",
                              "gzip, what", "br, br, br, br, br"}) {
    INFO(unknown);
    CHECK_FALSE(ContentDecoder::make(unknown));
  }
  auto none = decoder("identity");
  CHECK(feed(none, "data: a\n\n") == "data: a\n\n");
}

TEST_CASE("a body of several members or frames", "[codings]") {
  for (const std::size_t every : {1, 3, 4096}) {
    const std::string members = joined(test::gzip({"one "})) + joined(test::gzip({"two"}));
    CHECK(decoded("gzip", members, every) == "one two");
    const std::string skippable("\x50\x2A\x4D\x18\x03\0\0\0abc", 11);
    const std::string frames =
        joined(test::zstd({"one "})) + skippable + joined(test::zstd({"two"}));
    CHECK(decoded("zstd", frames, every) == "one two");
  }
}

TEST_CASE("what follows on the coded data is ignored", "[codings]") {
  for (const auto& coding : kCodings) {
    if (coding.name == "zstd") continue;  // where any bytes may begin another frame
    INFO(coding.name);
    const std::string body = joined(coding.encode({"text"}));
    for (const std::string& rest : {std::string(9, '\0'), std::string("HTTP"), std::string("\n")}) {
      CHECK(decoded(coding.name, body + rest, 1) == "text");
      CHECK(decoded(coding.name, body + rest, 4096) == "text");
    }
  }
}

TEST_CASE("bodies that are not what they say", "[codings]") {
  const std::string text = "data: {\"i\":0}\n\n";
  for (const auto& said : kCodings) {
    for (const auto& done : kCodings) {
      if (said.name == done.name) continue;
      INFO(done.name << " that says " << said.name);
      auto d = decoder(said.name);
      const std::string made = feed(d, joined(done.encode({text, text, text})));
      CHECK(made.find(text) == std::string::npos);
      // Bare deflate has no mark: all bytes may be it, and brotli's are nearly as free.
      if (said.name == "gzip" || said.name == "zstd") CHECK(d.failure() == Undecoded::malformed);
    }
    INFO(said.name << ", plain text");
    auto d = decoder(said.name);
    CHECK(feed(d, "data: plain text, not coded at all, said to be so\n\n").find("data") ==
          std::string::npos);
    CHECK(d.failure() == Undecoded::malformed);
  }
}

TEST_CASE("a byte that is changed is no harm but to the text", "[codings]") {
  std::mt19937 random(11);
  for (const auto& coding : kCodings) {
    const Pieces parts = events(random, 30);
    const std::string body = joined(coding.encode(parts));
    for (int round = 0; round < 300; ++round) {
      std::string broken = body;
      broken[random() % broken.size()] = static_cast<char>(random());
      auto whole = decoder(coding.name);
      auto bytewise = decoder(coding.name);
      const std::string text = feed(whole, broken);
      std::string same;
      for (const char& c : broken) same += feed(bytewise, {&c, 1});
      REQUIRE(whole.failure() == bytewise.failure());
      // What a library makes before it finds a fault in the same block depends on its input.
      REQUIRE((whole.failure() || text == same));
    }
  }
}

TEST_CASE("nothing can be decoded behind bytes that were not seen", "[codings]") {
  for (const auto& coding : kCodings) {
    const Pieces pieces = coding.encode({"one", "two"});
    auto d = decoder(coding.name);
    CHECK(feed(d, pieces[0]) == "one");
    d.skip();
    CHECK(d.failure() == Undecoded::gap);
    CHECK(feed(d, pieces[1]).empty());
    CHECK(d.failure() == Undecoded::gap);
  }
}

TEST_CASE("a window beyond what the standard allows is not decoded", "[codings]") {
  const std::string text(1000, 'x');
  CHECK(decoded("zstd", test::zstd_with_window(text, 23), 4096) == text);
  auto d = decoder("zstd");
  CHECK(feed(d, test::zstd_with_window(text, 24)).empty());
  CHECK(d.failure() == Undecoded::malformed);
  // RFC 7932, 9.1 has no window above 16 MiB; 0x11 is how the large ones begin.
  auto large = decoder("br");
  CHECK(feed(large, std::string("\x11\x1E\0\0\0\0\0\0", 8)).empty());
  CHECK(large.failure() == Undecoded::malformed);
}

TEST_CASE("a bomb costs neither memory nor time", "[codings]") {
  const std::string zeros(std::size_t{1} << 20, '\0');
  const Pieces megabytes(GENERATE(16, 64), zeros);
  Pieces bombs;
  std::vector<std::string> names;
  for (const auto& coding : kCodings) {
    names.push_back(coding.name);
    bombs.push_back(joined(coding.encode(megabytes)));
  }
  names.push_back("gzip, gzip");
  bombs.push_back(joined(test::gzip({joined(test::gzip(megabytes))})));
  names.push_back("br, zstd");
  bombs.push_back(joined(test::zstd({joined(test::brotli(megabytes))})));

  for (std::size_t i = 0; i < bombs.size(); ++i) {
    for (const std::size_t every : {std::size_t{100}, std::size_t{16384}, std::size_t{1} << 20}) {
      INFO(names[i] << ", " << bombs[i].size() << " bytes, " << every << " at once");
      const auto begin = std::chrono::steady_clock::now();
      const std::size_t before = allocated_bytes();
      std::size_t most = before;
      std::uint64_t made = 0, fed = 0;
      auto d = decoder(names[i]);
      for (std::size_t at = 0; at < bombs[i].size() && !d.failure(); at += every) {
        const auto piece = std::string_view(bombs[i]).substr(at, every);
        fed += piece.size();
        d.feed(std::as_bytes(std::span(piece)), [&](std::span<const std::byte> decoded) {
          made += decoded.size();
          most = std::max(most, allocated_bytes());
        });
      }
      CHECK(d.failure() == Undecoded::too_large);
      CHECK(made <= ContentDecoder::kFreeOutput + ContentDecoder::kOutputPerByte * fed);
      CHECK(most - before < std::size_t{20} << 20);
      // What may be decoded takes some milliseconds; all of a bomb would take a hundred times that.
      CHECK(std::chrono::steady_clock::now() - begin < std::chrono::seconds(2));
      CHECK(allocated_bytes() <= before + 65536);
    }
  }
}

TEST_CASE("a single event may be one long repetition", "[codings]") {
  const std::string event = "data: " + std::string(std::size_t{1} << 20, 'y') + "\n\n";
  for (const auto& coding : kCodings) {
    INFO(coding.name);
    CHECK(decoded(coding.name, joined(coding.encode({event})), 16384) == event);
  }
}

TEST_CASE("an endless stream of events stays within the bound", "[codings]") {
  // The same words again and again, which is as good as it gets.
  const Pieces parts(20'000, "data: {\"id\":\"chatcmpl-1\",\"object\":\"chat.completion.chunk\","
                             "\"choices\":[{\"index\":0,\"delta\":{\"content\":\" the\"}}]}\n\n");
  for (const auto& coding : kCodings) {
    INFO(coding.name);
    auto d = decoder(coding.name);
    for (const auto& piece : coding.encode(parts)) feed(d, piece);
    CHECK_FALSE(d.failure());
  }
}

}  // namespace
}  // namespace gcause
