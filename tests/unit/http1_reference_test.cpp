// SPDX-License-Identifier: Apache-2.0
#include "http1_reference.h"

#include <catch2/catch_test_macros.hpp>
#include <random>
#include <string>
#include <string_view>

namespace {

using gcause::test::agrees_with_reference;

class Writer {
 public:
  explicit Writer(unsigned seed) : random_(seed) {}

  /// Some responses behind each other, right ones as a rule.
  std::string connection() {
    std::string text;
    for (auto count = 1 + below(4); count > 0; --count) text += response();
    for (auto count = below(6) == 0 ? 1 + below(3) : 0; count > 0; --count) damage(text);
    return text;
  }

  std::size_t below(std::size_t limit) { return random_() % limit; }

 private:
  std::string line_end() { return below(5) == 0 ? "\n" : "\r\n"; }

  std::string body() {
    static constexpr std::string_view kPieces[] = {
        "data: hi\n\n", "HTTP/1.1 200 OK\r\n", "0\r\n\r\n", "\r\n", "x", "HTTP/1."};
    std::string text;
    for (auto count = below(6); count > 0; --count) text += kPieces[below(std::size(kPieces))];
    return text;
  }

  std::string chunked(std::string_view body) {
    std::string text;
    while (!body.empty()) {
      const auto size = 1 + below(body.size());
      char digits[32];
      std::snprintf(digits, sizeof digits, below(2) ? "%zx" : "%04zX", size);
      text += digits;
      if (below(4) == 0) text += below(2) ? ";name=value" : "  ";
      text += line_end();
      text += body.substr(0, size);
      text += line_end();
      body.remove_prefix(size);
    }
    text += "0" + line_end();
    if (below(3) == 0) text += "X-Checksum: 1" + line_end();
    return text + line_end();
  }

  std::string response() {
    const std::string text = body();
    std::string head;
    if (below(5) == 0) head += "HTTP/1.1 103 Early Hints" + line_end() + line_end();
    static constexpr std::string_view kStatus[] = {"200 OK", "200", "404 Not Found", "204 None"};
    head +=
        "HTTP/1." + std::to_string(below(2)) + " " + std::string(kStatus[below(4)]) + line_end();
    if (below(2)) head += "Content-Type:text/event-stream; charset=utf-8" + line_end();
    switch (below(8)) {
      case 0:
        return head + line_end() + text;
      case 1:
      case 2:
      case 3:
        return head + "content-LENGTH: " + std::to_string(text.size()) + line_end() + line_end() +
               text;
      default:
        return head + "Transfer-Encoding: chunked" + line_end() + line_end() + chunked(text);
    }
  }

  void damage(std::string& text) {
    if (text.empty()) return;
    switch (const auto at = below(text.size()); below(3)) {
      case 0:
        text[at] = static_cast<char>(random_());
        break;
      case 1:
        text.erase(at, 1 + below(4));
        break;
      default:
        text.resize(at);
    }
  }

  std::mt19937 random_;
};

}  // namespace

TEST_CASE("responses are those that the standard's plain reading finds, however reads cut them") {
  std::size_t responses = 0;
  std::size_t lost = 0;
  for (unsigned seed = 0; seed < 4000; ++seed) {
    Writer writer(seed);
    const std::string text = writer.connection();
    const auto outcome = gcause::test::Http1Reference(text).read();
    responses += outcome.responses.size();
    lost += outcome.lost;
    for (const std::size_t piece : {std::size_t{1}, 2 + writer.below(20), text.size() + 1}) {
      INFO("seed " << seed << ", pieces of " << piece << ":\n" << text);
      REQUIRE(agrees_with_reference(text, piece));
    }
  }
  // The texts are worth reading: many responses, and some that break off.
  CHECK(responses > 6000);
  CHECK(lost > 50);
}
