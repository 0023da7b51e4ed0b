// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target without a fuzzer: a fixed number of inputs from a fixed seed, random bytes and
// pieces of what the target knows. A smoke test; the search is libFuzzer's (GCAUSE_FUZZ).
#include <array>
#include <cstdint>
#include <cstdio>
#include <random>
#include <string_view>
#include <vector>

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size);

using namespace std::literals;

int main() {
  constexpr int kInputs = 20000;
  constexpr std::array<std::string_view, 15> kPieces = {
      "HTTP/1.1 200 OK\r\n", "Content-Type: text/event-stream\r\n", "Transfer-Encoding: chunked\r\n\r\n",
      "a\r\ndata: hi\n\n\r\n", "data: [DONE]\n\n", "event: x\r\n", ": comment\n", "0\r\n\r\n",
      // HTTP/2: preface, SETTINGS, a request and a response from the static table, DATA, RST_STREAM
      "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "\0\0\6\4\0\0\0\0\0\0\1\0\0\20\0"sv,
      "\0\0\3\1\4\0\0\0\1\x83\x87\x84"sv, "\0\0\1\1\4\0\0\0\1\x88"sv,
      "\0\0\7\0\0\0\0\0\1""data: x"sv, "\0\0\4\3\0\0\0\0\1\0\0\0\10"sv,
      // TLS records
      "\x17\x03\x03\0\x02" "ab\x17\x03\x03"sv};
  std::mt19937 random(20260101);
  std::vector<std::uint8_t> input;
  for (int i = 0; i < kInputs; ++i) {
    input.clear();
    for (auto parts = random() % 12; parts > 0; --parts) {
      if (random() % 2) {
        const auto piece = kPieces[random() % kPieces.size()];
        input.insert(input.end(), piece.begin(), piece.end());
      } else {
        for (auto bytes = random() % 40; bytes > 0; --bytes) {
          input.push_back(static_cast<std::uint8_t>(random()));
        }
      }
    }
    LLVMFuzzerTestOneInput(input.data(), input.size());
  }
  std::printf("%d inputs\n", kInputs);
  return 0;
}
