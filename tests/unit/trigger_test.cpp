// SPDX-License-Identifier: Apache-2.0
#include "decode/trigger.h"

#include <catch2/catch_test_macros.hpp>
#include <cstring>
#include <string>
#include <vector>

#include "decode/kernel_abi.h"

namespace gcause {
namespace {

struct Parts {
  std::string file = "app.py";
  std::string function = "work";
  std::string lines = std::string("\x04\x01\x04\x02", 4);  // 3.10: lines 11 and 13
  unsigned file_kind = 0;
  unsigned function_kind = 0;
  std::int64_t instruction = 4;
};

std::vector<std::byte> record_of(const Parts& parts) {
  trigger_record record = {};
  const auto texts = parts.file + parts.function + parts.lines;
  record.header = {static_cast<u32>(sizeof record + texts.size()), RECORD_TRIGGER, 0, 42, 43, 99};
  record.instruction = parts.instruction;
  record.first_line = 10;
  record.line_table = LINES_LINETABLE;
  record.file_length = static_cast<u16>(parts.file.size());
  record.function_length = static_cast<u16>(parts.function.size());
  record.lines_length = static_cast<u16>(parts.lines.size());
  record.file_kind = static_cast<u8>(parts.file_kind);
  record.function_kind = static_cast<u8>(parts.function_kind);
  std::vector<std::byte> bytes(sizeof record + texts.size());
  std::memcpy(bytes.data(), &record, sizeof record);
  std::memcpy(bytes.data() + sizeof record, texts.data(), texts.size());
  return bytes;
}

TEST_CASE("a trigger has file, function and line") {
  const auto seen = decode_trigger(record_of({}));
  REQUIRE(seen);
  CHECK(seen->at == 99);
  CHECK(seen->pid == 42);
  CHECK(seen->tid == 43);
  CHECK(seen->file == "app.py");
  CHECK(seen->function == "work");
  CHECK(seen->line == 13);
}

TEST_CASE("names of wider characters come out in UTF-8") {
  Parts parts;
  parts.file =
      std::string("\xe9\x00\xac\x20\x00\xd8", 6);  // é, the euro sign, half a surrogate pair
  parts.file_kind = 2;
  parts.function = std::string("f\0\0\0\x0a\xf6\x01\0", 8);  // f and U+1F60A
  parts.function_kind = 4;
  auto seen = decode_trigger(record_of(parts));
  REQUIRE(seen);
  CHECK(seen->file == "\xc3\xa9\xe2\x82\xac\xef\xbf\xbd");
  CHECK(seen->function == "f\xf0\x9f\x98\x8a");
  parts = {};
  parts.file = "caf\xe9.py";
  parts.file_kind = 1;
  seen = decode_trigger(record_of(parts));
  REQUIRE(seen);
  CHECK(seen->file == "caf\xc3\xa9.py");
}

bool is_sure(const Parts& parts) {
  const auto seen = decode_trigger(record_of(parts));
  REQUIRE(seen);  // it is no malformed record
  return seen->sure;
}

TEST_CASE("a trigger is not sure where a part is missing or no line is known") {
  Parts parts;
  CHECK(is_sure(parts));
  parts.file.clear();
  CHECK_FALSE(is_sure(parts));
  parts = {};
  parts.function.clear();
  CHECK_FALSE(is_sure(parts));
  parts = {};
  parts.lines.clear();
  CHECK_FALSE(is_sure(parts));
  parts = {};
  parts.instruction = 8;  // behind the table's end
  CHECK_FALSE(is_sure(parts));
}

TEST_CASE("a record that is shorter than its parts is malformed") {
  const auto whole = record_of({});
  for (std::size_t length = 0; length < whole.size(); ++length) {
    CHECK_FALSE(decode_trigger(std::span(whole).first(length)));
  }
}

}  // namespace
}  // namespace gcause
