// SPDX-License-Identifier: Apache-2.0
#include "decode/line_table.h"

#include <array>
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace gcause {
namespace {

using Bytes = std::vector<std::byte>;

Bytes bytes(std::initializer_list<int> values) {
  Bytes out;
  for (const int value : values) out.push_back(static_cast<std::byte>(value));
  return out;
}

Bytes from_hex(const std::string& text) {
  Bytes out;
  for (std::size_t i = 0; i + 1 < text.size(); i += 2) {
    out.push_back(static_cast<std::byte>(std::stoi(text.substr(i, 2), nullptr, 16)));
  }
  return out;
}

/// One line of data/line_tables.txt (see make_line_tables.py there).
struct Sample {
  line_table kind;
  std::string name;
  std::int64_t first_line;
  Bytes table;
  std::map<std::int64_t, std::optional<std::int64_t>> lines;
  std::int64_t end;
};

std::vector<Sample> samples() {
  const std::map<std::string, line_table> kinds = {
      {"lnotab", LINES_LNOTAB}, {"linetable", LINES_LINETABLE}, {"locations", LINES_LOCATIONS}};
  std::vector<Sample> all;
  std::ifstream file(std::string(GCAUSE_TEST_DATA) + "/data/line_tables.txt");
  for (std::string row; std::getline(file, row);) {
    std::istringstream in(row);
    std::string kind, version, name, table, pair;
    Sample sample{};
    in >> kind >> version >> name >> sample.first_line >> table;
    sample.kind = kinds.at(kind);
    sample.name = version + " " + name;
    sample.table = from_hex(table);
    while (in >> pair) {
      const auto colon = pair.find(':');
      const auto value = pair.substr(colon + 1);
      if (pair.starts_with("END")) {
        sample.end = std::stoll(value);
      } else {
        auto& line = sample.lines[std::stoll(pair.substr(0, colon))];
        if (value != "-") line = std::stoll(value);
      }
    }
    all.push_back(std::move(sample));
  }
  return all;
}

TEST_CASE("every instruction of real functions has the line that CPython gives it") {
  const auto all = samples();
  REQUIRE(all.size() >= 30);
  for (const auto& sample : all) {
    INFO(sample.name);
    REQUIRE(!sample.lines.empty());
    for (std::int64_t offset = 0; offset < sample.end; offset += 2) {
      INFO(offset);
      const auto next = sample.lines.upper_bound(offset);
      const auto expected =
          next == sample.lines.begin() ? std::optional(sample.first_line) : std::prev(next)->second;
      CHECK(line_of(sample.kind, sample.first_line, offset, sample.table) == expected);
    }
  }
}

TEST_CASE("a frame that has not begun is at the first line") {
  for (const auto kind : {LINES_LNOTAB, LINES_LINETABLE, LINES_LOCATIONS}) {
    CHECK(line_of(kind, 7, -2, {}) == 7);
  }
}

TEST_CASE("behind the end of a table with ranges there is no line") {
  CHECK(line_of(LINES_LINETABLE, 7, 4, bytes({4, 1})) == std::nullopt);
  CHECK(line_of(LINES_LINETABLE, 7, 3, bytes({4, 1})) == 8);
  CHECK(line_of(LINES_LOCATIONS, 7, 2, bytes({0x80 | 11 << 3, 0, 0})) == std::nullopt);
  CHECK(line_of(LINES_LOCATIONS, 7, 1, bytes({0x80 | 11 << 3, 0, 0})) == 8);
  CHECK(line_of(LINES_LNOTAB, 7, 1'000'000, bytes({4, 1})) == 8);
}

TEST_CASE("an instruction without a line has none") {
  CHECK(line_of(LINES_LINETABLE, 7, 0, bytes({4, 0x80, 4, 1})) == std::nullopt);
  CHECK(line_of(LINES_LINETABLE, 7, 5, bytes({4, 0x80, 4, 1})) == 8);
  CHECK(line_of(LINES_LOCATIONS, 7, 0, bytes({0x80 | 15 << 3, 0x80 | 11 << 3})) == std::nullopt);
  CHECK(line_of(LINES_LOCATIONS, 7, 2, bytes({0x80 | 15 << 3, 0x80 | 11 << 3})) == 8);
}

TEST_CASE("a table of unknown kind or with broken entries gives no line") {
  CHECK(line_of(LINES_NOT_KNOWN, 7, 0, bytes({4, 1})) == std::nullopt);
  CHECK(line_of(static_cast<line_table>(99), 7, 0, bytes({4, 1})) == std::nullopt);
  CHECK(line_of(LINES_LOCATIONS, 7, 0, bytes({1, 2, 3})) == std::nullopt);
  CHECK(line_of(LINES_LOCATIONS, 7, 0, bytes({0x80 | 13 << 3})) == std::nullopt);
  CHECK(line_of(LINES_LOCATIONS, 7, 0,
                bytes({0x80 | 13 << 3, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f})) == std::nullopt);
}

TEST_CASE("signed numbers of a location go both ways") {
  // -1 is 3 with the sign in the lowest bit; 1000 is 2000 in two groups of six bits.
  CHECK(line_of(LINES_LOCATIONS, 7, 0, bytes({0x80 | 13 << 3, 3})) == 6);
  CHECK(line_of(LINES_LOCATIONS, 7, 0, bytes({0x80 | 13 << 3, 0x40 | (2000 & 63), 2000 >> 6})) ==
        1007);
}

}  // namespace
}  // namespace gcause
