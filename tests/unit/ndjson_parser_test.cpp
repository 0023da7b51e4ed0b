// SPDX-License-Identifier: Apache-2.0
#include "stream/ndjson_parser.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <ostream>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace gcause {
namespace {

struct Seen {
  std::string data;
  std::size_t end = 0;  // in the whole stream; 0: with its end
  std::uint64_t bytes = 0;
  bool truncated = false;
  bool operator==(const Seen&) const = default;
};

std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << "{" << seen.data << "|" << seen.end << "|" << seen.bytes << "|" << seen.truncated
             << "}";
}

// Each piece is fed from a copy of its own, so that a view that outlives its span is found.
class Feeder {
 public:
  explicit Feeder(std::size_t limit = NdjsonParser::kMaxLine) : parser(limit) {}

  void feed(std::string_view piece) {
    std::vector<char> copy(piece.begin(), piece.end());
    parser.feed(std::as_bytes(std::span(copy)), [&](const NdjsonParser::Line& line) {
      REQUIRE(line.end >= 1);
      REQUIRE(line.end <= piece.size());
      lines.push_back({std::string(line.data), fed_ + line.end, line.bytes, line.truncated});
    });
    std::fill(copy.begin(), copy.end(), '\xAA');
    fed_ += piece.size();
  }
  void finish() {
    parser.finish([&](const NdjsonParser::Line& line) {
      CHECK(line.end == 0);
      lines.push_back({std::string(line.data), 0, line.bytes, line.truncated});
    });
  }

  NdjsonParser parser;
  std::vector<Seen> lines;

 private:
  std::size_t fed_ = 0;
};

std::vector<Seen> parse(const std::vector<std::string_view>& pieces, std::size_t limit = 65536) {
  Feeder feeder(limit);
  for (const auto piece : pieces) feeder.feed(piece);
  feeder.finish();
  return feeder.lines;
}

/// "Lines end in LF; a CR in front of it goes; lines that are empty may be ignored; JSON has white
/// space around it", on the whole stream at once.
std::vector<Seen> reference(const std::string& stream, std::size_t limit) {
  std::vector<Seen> lines;
  std::string line;
  std::uint64_t bytes = 0;
  const auto take = [&](std::size_t end) {
    std::string data = line;
    const auto blank = [](char c) { return c == ' ' || c == '\t' || c == '\r'; };
    while (!data.empty() && blank(data.back())) data.pop_back();
    while (!data.empty() && blank(data.front())) data.erase(0, 1);
    if (!data.empty()) lines.push_back({data.substr(0, limit), end, bytes, data.size() > limit});
    line.clear();
    bytes = 0;
  };
  for (std::size_t i = 0; i < stream.size(); ++i) {
    ++bytes;
    if (stream[i] == '\n') {
      take(i + 1);
    } else {
      line += stream[i];
    }
  }
  take(0);
  return lines;
}

TEST_CASE("each line is handed over at its LF", "[ndjson]") {
  CHECK(parse({"{\"a\":1}\n{\"b\":2}\n"}) ==
        std::vector<Seen>{{"{\"a\":1}", 8, 8}, {"{\"b\":2}", 16, 8}});
  CHECK(parse({"{\"a\"", ":1}", "\n"}) == std::vector<Seen>{{"{\"a\":1}", 8, 8}});
}

TEST_CASE("CR LF, blank lines and blanks around a value", "[ndjson]") {
  CHECK(parse({"1\r\n\r\n  \t\n\n 2 \r\n"}) == std::vector<Seen>{{"1", 3, 3}, {"2", 15, 5}});
  CHECK(parse({"1\r", "\n2\r\n"}) == std::vector<Seen>{{"1", 3, 3}, {"2", 6, 3}});
  // A CR alone ends nothing.
  CHECK(parse({"1\r2\n"}) == std::vector<Seen>{{"1\r2", 4, 4}});
}

TEST_CASE("the last line may lack its LF", "[ndjson]") {
  CHECK(parse({"1\n2"}) == std::vector<Seen>{{"1", 2, 2}, {"2", 0, 1}});
  CHECK(parse({"1\n \r"}) == std::vector<Seen>{{"1", 2, 2}});
  CHECK(parse({""}).empty());
}

TEST_CASE("a long line is kept up to the limit and counted behind it", "[ndjson]") {
  const std::size_t limit = NdjsonParser::kMaxLine;
  const std::string exact(limit, 'x');
  CHECK(parse({exact + "\n"}) == std::vector<Seen>{{exact, limit + 1, limit + 1, false}});
  const std::string over = exact + std::string(1 << 20, 'x') + "\n";
  const Seen expected{exact, over.size(), over.size(), true};
  CHECK(parse({over}) == std::vector<Seen>{expected});
  CHECK(parse({over.substr(0, 5), over.substr(5, 70'000), over.substr(70'005)}) ==
        std::vector<Seen>{expected});
}

TEST_CASE("bytes that were not seen belong to the open line", "[ndjson]") {
  Feeder feeder;
  feeder.feed("{\"a\":");
  feeder.parser.skip(1000);
  feeder.feed("1}\n{}\n");
  CHECK(feeder.lines == std::vector<Seen>{{"{\"a\":", 8, 1008, true}, {"{}", 11, 3, false}});
  feeder.parser.skip(3);
  feeder.feed("tail}\n[]\n");
  REQUIRE(feeder.lines.size() == 3);
  CHECK(feeder.lines[2].data == "[]");
  CHECK_FALSE(feeder.lines[2].truncated);
  feeder.parser.skip(3);
  feeder.finish();
  CHECK(feeder.lines.size() == 3);
}

TEST_CASE("random lines, randomly cut, agree with the words of the standard", "[ndjson]") {
  static const std::vector<std::string> kParts = {"{\"a\":1}", "\n", "\r\n", "\r", " ", "\t", "x",
                                                  "\n\n", "{}", "abcdefgh", "\xE4\xBD\xA0"};
  std::mt19937 random(12);
  std::size_t lines = 0;
  for (int round = 0; round < 20'000; ++round) {
    std::string stream;
    for (auto parts = random() % 30; parts > 0; --parts) stream += kParts[random() % kParts.size()];
    const std::size_t limit = round % 2 == 0 ? 5 : NdjsonParser::kMaxLine;
    const auto expected = reference(stream, limit);
    lines += expected.size();
    Feeder feeder(limit);
    const std::size_t longest = 1 + random() % 20;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t size = random() % (longest + 1);
      feeder.feed(std::string_view(stream).substr(at, size));
      at += size;
    }
    feeder.finish();
    INFO("round " << round << ", stream <" << stream << ">");
    REQUIRE(feeder.lines == expected);
    REQUIRE(parse({stream}, limit) == expected);
  }
  CHECK(lines > 10'000);
}

}  // namespace
}  // namespace gcause
