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

using namespace std::string_view_literals;

int main() {
  constexpr int kInputs = 20000;
  constexpr std::array<std::string_view, 9> kPieces = {
      "HTTP/1.1 200 OK\r\n", "Content-Type: text/event-stream\r\n", "Transfer-Encoding: chunked\r\n\r\n",
      "a\r\ndata: hi\n\n\r\n", "data: [DONE]\n\n", "event: x\r\n", ": comment\n", "0\r\n\r\n",
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
