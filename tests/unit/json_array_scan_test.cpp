// SPDX-License-Identifier: Apache-2.0
#include "stream/json_array_scan.h"

#include <catch2/catch_test_macros.hpp>
#include <span>
#include <string_view>

namespace gcause {
namespace {

JsonArrayScan scan_of(std::string_view text) {
  JsonArrayScan scan;
  for (const char& c : text) scan.feed(std::as_bytes(std::span(&c, 1)));
  return scan;
}

TEST_CASE("elements are counted, and the places between them seen") {
  CHECK(scan_of(" [\n").elements() == 0);
  CHECK_FALSE(scan_of("[").between_elements());
  CHECK_FALSE(scan_of("[{\"a\": [{}, []]").between_elements());
  CHECK(scan_of("[{\"a\": [{}, []]").elements() == 0);
  CHECK(scan_of("[{\"a\": [{}, []]}").elements() == 1);
  CHECK(scan_of("[{\"a\": [{}, []]}").between_elements());
  CHECK(scan_of("[{},").between_elements());
  CHECK_FALSE(scan_of("[{},{").between_elements());
  CHECK(scan_of("[{},{}]").elements() == 2);
  CHECK(scan_of("[{},{}]\n").between_elements());
}

TEST_CASE("brackets in strings are no brackets") {
  CHECK_FALSE(scan_of(R"([{"a}":"])").between_elements());
  CHECK_FALSE(scan_of(R"([{"a":"\"}")").between_elements());
  CHECK(scan_of(R"([{"a":"\\"})").elements() == 1);
  CHECK(scan_of(R"([{"a":"{[\"{["})").elements() == 1);
}

TEST_CASE("what begins in another way is no array of objects") {
  for (const auto* text : {"{", "x", "\"[", "[1", "[[", "[\"a\"", "[]"}) {
    INFO(text);
    CHECK(scan_of(text).hopeless());
    CHECK_FALSE(scan_of(text).between_elements());
  }
  JsonArrayScan scan = scan_of("[{},");
  scan.lose();
  CHECK_FALSE(scan.between_elements());
}

}  // namespace
}  // namespace gcause
