// SPDX-License-Identifier: Apache-2.0
#include "stream/sse_parser.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "sse_reference.h"

using gcause::SseParser;
using gcause::test::Outcome;
using gcause::test::Seen;
using gcause::test::sse_reference;

namespace {

// Each piece is fed from a copy of its own, so that a view that outlives its span is found by the
// address sanitizer, and by the comparison.
class Feeder {
 public:
  explicit Feeder(std::size_t limit = SseParser::kMaxEventData) : parser_(limit) {}

  void feed(std::string_view piece) {
    std::vector<char> copy(piece.begin(), piece.end());
    parser_.feed(std::as_bytes(std::span(copy)), [&](const SseParser::Event& event) {
      REQUIRE(event.end >= 1);
      REQUIRE(event.end <= piece.size());
      outcome_.events.push_back({std::string(event.type), std::string(event.data), fed_ + event.end,
                                 event.bytes, event.truncated});
    });
    std::fill(copy.begin(), copy.end(), '\xAA');
    fed_ += piece.size();
  }

  Outcome outcome() {
    outcome_.comments = parser_.comments();
    return outcome_;
  }
  SseParser& parser() { return parser_; }

 private:
  SseParser parser_;
  Outcome outcome_;
  std::size_t fed_ = 0;
};

Outcome parse(const std::vector<std::string_view>& pieces,
              std::size_t limit = SseParser::kMaxEventData) {
  Feeder feeder(limit);
  for (const std::string_view piece : pieces) feeder.feed(piece);
  return feeder.outcome();
}

std::vector<std::string> data_of(const std::vector<std::string_view>& pieces) {
  std::vector<std::string> result;
  for (const Seen& seen : parse(pieces).events) result.push_back(seen.data);
  return result;
}

using Strings = std::vector<std::string>;

// The outcome is the same wherever the bytes are cut in two, and byte by byte.
void require_same_for_all_cuts(std::string_view stream) {
  const Outcome whole = parse({stream});
  for (std::size_t cut = 1; cut < stream.size(); ++cut) {
    INFO("cut at " << cut);
    REQUIRE(parse({stream.substr(0, cut), stream.substr(cut)}) == whole);
  }
  Feeder feeder;
  for (const char& c : stream) feeder.feed({&c, 1});
  REQUIRE(feeder.outcome() == whole);
}

std::string byte_soup(std::mt19937& random) {
  static const std::vector<std::string> kParts = {
      "data",   "event", ":",    ": ",       "\n",   "\r",  "\r\n",      "\n\n", "\r\n\r\n", " ",
      "data: ", "data:", "dat",  "a",        "id: ", "xyz", "event: e",  "\xEF", "\xBB",     "\xBF",
      "\r\r",   "retry", "Data", "\xE2\x80", "\x85", "\n",  "data: q\n", "\n",   "data:x"};
  std::string soup;
  if (random() % 4 == 0) soup = std::string("\xEF\xBB\xBF").substr(0, 1 + random() % 3);
  for (std::size_t parts = random() % 40; parts > 0; --parts) {
    if (random() % 30 == 0) {
      soup += static_cast<char>(random());
    } else {
      soup += kParts[random() % kParts.size()];
    }
  }
  return soup;
}

}  // namespace

TEST_CASE("C13: CRLF ends lines", "[sse]") {
  const std::string_view first = "event: message\r\ndata: {\"i\":0}\r\n\r\n";
  const std::string_view second = "event: message\r\ndata: {\"i\":1}\r\n\r\n";
  const std::string both = std::string(first) + std::string(second);
  REQUIRE(both.size() == 66);
  const Outcome one = parse({both});
  REQUIRE(one.events.size() == 2);
  CHECK(one.events[0] == Seen{"message", "{\"i\":0}", 32, 32, false});
  CHECK(one.events[1] == Seen{"message", "{\"i\":1}", 65, 32, false});
  CHECK(parse({first, second}) == one);
  require_same_for_all_cuts(both);
}

TEST_CASE("C15: CR and LF in different pieces", "[sse]") {
  CHECK(data_of({"data: a\r", "\ndata: b\r\n\r", "\n"}) == Strings{"a\nb"});
  CHECK(data_of({"data: A\r\n", "data: B\r", "data: C\r\n", "\n"}) == Strings{"A\nB\nC"});
  const std::string_view stream = "data: a\r\ndata: b\r\n\r\n";
  REQUIRE(stream.size() == 20);
  for (std::size_t cut = 1; cut < stream.size(); ++cut) {
    INFO("cut at " << cut);
    CHECK(data_of({stream.substr(0, cut), stream.substr(cut)}) == Strings{"a\nb"});
  }
  require_same_for_all_cuts(stream);
}

TEST_CASE("A blank line that ends in CR dispatches at once", "[sse]") {
  Feeder feeder;
  feeder.feed("data: a\r\n\r");
  REQUIRE(feeder.outcome().events.size() == 1);
  CHECK(feeder.outcome().events[0].end == 10);
  feeder.feed("\ndata: b\r\r");
  REQUIRE(feeder.outcome().events.size() == 2);
  CHECK(feeder.outcome().events[1] == Seen{"", "b", 20, 9, false});
  require_same_for_all_cuts("data: a\r\rdata: b\r\r\ndata: c\n\rdata: d\n\n");
}

TEST_CASE("C16: only LF and CR end lines", "[sse]") {
  const std::string stream =
      "data: {\"c\":\"x\xE2\x80\xA8y\xC2\x85z\"}\n\n"
      "data: {\"c\":\"\xE2\x9C\x85\"}\n\n"
      "data: a\x0B\x0C\xE2\x80\xA9\x1C\x1D\x1E"
      "b\n\n";
  CHECK(data_of({stream}) == Strings{"{\"c\":\"x\xE2\x80\xA8y\xC2\x85z\"}",
                                     "{\"c\":\"\xE2\x9C\x85\"}",
                                     "a\x0B\x0C\xE2\x80\xA9\x1C\x1D\x1E"
                                     "b"});
  require_same_for_all_cuts(stream);
}

TEST_CASE("C17: comments are counted and are no events", "[sse]") {
  const std::string comment = ": OPENROUTER PROCESSING\n\n";
  const std::string stream = comment + comment + "data: {\"i\":0}\n\ndata: {\"i\":1}\n\n" +
                             comment + comment + comment + "data: {\"i\":2}\n\ndata: [DONE]\n\n";
  const Outcome outcome = parse({stream});
  CHECK(outcome.events.size() == 4);
  CHECK(outcome.comments == 5);
  CHECK(outcome.events[0].bytes == 15);
  require_same_for_all_cuts(stream);
}

TEST_CASE("A comment inside a block belongs to it and leaves its data alone", "[sse]") {
  const Outcome outcome = parse({":a\ndata: x\n:\ndata: y\n: b\n\n"});
  REQUIRE(outcome.events.size() == 1);
  CHECK(outcome.events[0] == Seen{"", "x\ny", 26, 26, false});
  CHECK(outcome.comments == 3);
}

TEST_CASE("C20: the rules of fields", "[sse]") {
  const std::string_view stream =
      "data: {\ndata:  \"i\":0\ndata: }\n\ndata\n\ndata:x\n\ndata:  y\n\nevent: ping\n\n";
  REQUIRE(stream.size() == 67);
  CHECK(data_of({stream}) == Strings{"{\n \"i\":0\n}", "", "x", " y"});
  require_same_for_all_cuts(stream);
}

TEST_CASE("Field names are exact, and other fields are ignored", "[sse]") {
  CHECK(data_of({"Data: a\ndata : b\n data: c\ndatax: d\ndat: e\nid: 1\nretry: 2\n\n"}).empty());
  CHECK(data_of({"id: 1\ndata:a:b\nretry: 2\nfoo\n\n"}) == Strings{"a:b"});
}

TEST_CASE("Events without data are not dispatched and leave no type behind", "[sse]") {
  const Outcome outcome = parse({"event: ping\n\ndata: a\n\n\n\n\ndata:\n\ndata\ndata\n\n"});
  REQUIRE(outcome.events.size() == 3);
  CHECK(outcome.events[0].type.empty());
  CHECK(outcome.events[0].data == "a");
  CHECK(outcome.events[1].data.empty());
  CHECK(outcome.events[2].data == "\n");
}

TEST_CASE("The last event field gives the type, an empty one takes it back", "[sse]") {
  CHECK(parse({"event: a\ndata: 1\nevent:b\n\n"}).events.at(0).type == "b");
  CHECK(parse({"event: a\ndata: 1\n", "event\n\n"}).events.at(0).type.empty());
  CHECK(parse({"event: a\n", "data: 1\n", "\n"}).events.at(0).type == "a");
  CHECK(parse({"event: a\ndata: 1\n\ndata: 2\n\n"}).events.at(1).type.empty());
  require_same_for_all_cuts("event: abc\ndata: 1\n\nevent: d\nevent\ndata: 2\n\n");
}

TEST_CASE("An unfinished event is not dispatched", "[sse]") {
  CHECK(data_of({"data: a"}).empty());
  CHECK(data_of({"data: a\n"}).empty());
  CHECK(data_of({"data: a\r\n"}).empty());
  CHECK(data_of({"data: a\n\ndata: b\n"}) == Strings{"a"});
}

TEST_CASE("A leading byte order mark is dropped, another one is not", "[sse]") {
  CHECK(data_of({"\xEF\xBB\xBF"
                 "data: a\n\n"}) == Strings{"a"});
  CHECK(data_of({"\xEF\xBB\xBF\xEF\xBB\xBF"
                 "data: a\n\n"})
            .empty());
  CHECK(data_of({"data: a\n\n\xEF\xBB\xBF"
                 "data: b\n\n"}) == Strings{"a"});
  CHECK(data_of({"\xEF\xBB"
                 "data: a\n\ndata: b\n\n"}) == Strings{"b"});
  CHECK(data_of({"\xEF", "\xBB", "\xBF", "data: a\n\n"}) == Strings{"a"});
  CHECK(data_of({"\xEF", "\xBB", "data: a\n\n"}).empty());
  require_same_for_all_cuts(
      "\xEF\xBB\xBF"
      "data: a\n\n");
  require_same_for_all_cuts(
      "\xEF\xBB"
      "data: a\n\ndata: b\n\n");
}

TEST_CASE("C23: one byte at a time, characters cut", "[sse]") {
  const std::string stream = "data: {\"c\":\"\xE4\xBD\xA0\xE5\xA5\xBD\xF0\x9F\xA6\x80\"}\n\n";
  REQUIRE(stream.size() == 26);
  Feeder feeder;
  for (std::size_t i = 0; i < stream.size(); ++i) {
    CHECK(feeder.outcome().events.empty());
    feeder.feed(std::string_view(stream).substr(i, 1));
  }
  REQUIRE(feeder.outcome().events.size() == 1);
  CHECK(feeder.outcome().events[0] == Seen{"", stream.substr(6, 18), 26, 26, false});
}

TEST_CASE("C24: many events in one read share it and keep their places", "[sse]") {
  std::string stream;
  for (int i = 0; i < 10; ++i) stream += "data: " + std::to_string(i) + "\n\n";
  const Outcome outcome = parse({stream});
  REQUIRE(outcome.events.size() == 10);
  for (std::size_t i = 0; i < 10; ++i) {
    CHECK(outcome.events[i] == Seen{"", std::to_string(i), 9 * (i + 1), 9, false});
  }
}

TEST_CASE("Data is kept up to the limit and counted behind it", "[sse]") {
  const std::size_t limit = SseParser::kMaxEventData;
  const std::string exact(limit, 'x');
  const std::string over(limit + 1, 'x');
  CHECK(parse({"data: " + exact + "\n\n"}).events.at(0) ==
        Seen{"", exact, limit + 8, limit + 8, false});
  for (const std::string prefix : {"data: ", "data:"}) {
    const std::string stream = prefix + over + "\n\n";
    const Seen expected{"", exact, stream.size(), stream.size(), true};
    CHECK(parse({stream}).events.at(0) == expected);
    CHECK(
        parse({stream.substr(0, 10), stream.substr(10, 4000), stream.substr(4010)}).events.at(0) ==
        expected);
  }
  const Outcome outcome = parse({"data: " + exact + "\ndata:\n\n", "data: b\n\n"});
  CHECK(outcome.events.at(0).truncated);
  CHECK(outcome.events.at(1) == Seen{"", "b", limit + 23, 9, false});
}

TEST_CASE("C33: a 200 KiB event over many reads is one truncated event", "[sse]") {
  const std::string stream =
      "event: response.completed\ndata: {\"type\":\"response.completed\",\"x\":\"" +
      std::string(200 * 1024, 'y') + "\"}\n\n";
  Feeder feeder;
  for (std::size_t at = 0; at < stream.size(); at += 16 * 1024) {
    CHECK(feeder.outcome().events.empty());
    feeder.feed(std::string_view(stream).substr(at, 16 * 1024));
  }
  REQUIRE(feeder.outcome().events.size() == 1);
  const Seen seen = feeder.outcome().events[0];
  CHECK(seen.type == "response.completed");
  CHECK(seen.data.size() == SseParser::kMaxEventData);
  CHECK(seen.bytes == stream.size());
  CHECK(seen.truncated);
}

TEST_CASE("A long type is cut", "[sse]") {
  const std::string longest(SseParser::kMaxEventType, 't');
  const std::string stream = "event: " + longest + "tt\ndata: a\n\n";
  CHECK(parse({stream}).events.at(0).type == longest);
  CHECK(parse({stream.substr(0, 100), stream.substr(100)}, 4).events.at(0).type == longest);
}

TEST_CASE("C33: skipped bytes belong to the open line and mark the event", "[sse]") {
  Feeder feeder;
  feeder.feed("event: e\ndata: abc");
  feeder.parser().skip(1000);
  feeder.feed("xyz\n\ndata: b\n\n");
  const Outcome outcome = feeder.outcome();
  REQUIRE(outcome.events.size() == 2);
  CHECK(outcome.events[0].type == "e");
  CHECK(outcome.events[0].data == "abc");
  CHECK(outcome.events[0].truncated);
  CHECK(outcome.events[0].bytes == 18 + 1000 + 5);
  CHECK(outcome.events[1].data == "b");
  CHECK_FALSE(outcome.events[1].truncated);
}

TEST_CASE("A line whose beginning was skipped is no field and no blank line", "[sse]") {
  Feeder feeder;
  feeder.feed("data: a\n");
  feeder.parser().skip(3);
  feeder.feed("\ndata: b\n");
  CHECK(feeder.outcome().events.empty());
  feeder.parser().skip(3);
  feeder.feed("data: c\n: d\n\n");
  const Outcome outcome = feeder.outcome();
  REQUIRE(outcome.events.size() == 1);
  CHECK(outcome.events[0].data == "a\nb");
  CHECK(outcome.events[0].truncated);
  CHECK(outcome.comments == 1);
}

TEST_CASE("Reset begins a new stream", "[sse]") {
  for (const std::string_view rest : {"data: a\nevent: x\nda", ": c\ndata: a\r", "\xEF\xBB"}) {
    SseParser parser;
    const auto ignore = [](const SseParser::Event&) {};
    parser.feed(std::as_bytes(std::span(rest)), ignore);
    parser.reset();
    CHECK(parser.comments() == 0);
    std::vector<Seen> events;
    const std::string_view stream =
        "\xEF\xBB\xBF"
        "data: b\n\n";
    parser.feed(std::as_bytes(std::span(stream)), [&](const SseParser::Event& event) {
      events.push_back({std::string(event.type), std::string(event.data), event.end, event.bytes,
                        event.truncated});
    });
    CHECK(events == std::vector<Seen>{{"", "b", 12, 12, false}});
  }
}

TEST_CASE("A parser can be copied in the middle of an event", "[sse]") {
  Feeder first;
  first.feed("event: e\ndata: a\nda");
  Feeder second = first;
  first.feed("ta: b\n\n");
  second.feed("ta: c\n\n");
  CHECK(first.outcome().events.at(0).data == "a\nb");
  CHECK(second.outcome().events.at(0).data == "a\nc");
  CHECK(second.outcome().events.at(0).type == "e");
}

TEST_CASE("Random bytes, randomly cut, agree with the standard read literally", "[sse]") {
  std::mt19937 random(20240611);
  std::size_t dispatched = 0;
  for (int round = 0; round < 20000; ++round) {
    const std::string stream = byte_soup(random);
    const std::size_t limit = round % 2 == 0 ? 5 : SseParser::kMaxEventData;
    const Outcome expected = sse_reference(stream, limit);
    dispatched += expected.events.size();
    Feeder feeder(limit);
    const std::size_t longest = 1 + random() % 20;
    for (std::size_t at = 0; at < stream.size();) {
      const std::size_t size = std::min(stream.size() - at, random() % (longest + 1));
      feeder.feed(std::string_view(stream).substr(at, size));
      at += size;
    }
    INFO("round " << round << ", stream <" << stream << ">");
    REQUIRE(feeder.outcome().comments == expected.comments);
    REQUIRE(feeder.outcome().events == expected.events);
    REQUIRE(parse({stream}, limit) == expected);
  }
  CHECK(dispatched > 10000);
}

TEST_CASE("All short streams of what matters to the standard agree with it", "[sse]") {
  // Every word of up to six of these, whole and byte by byte.
  static const std::vector<std::string> kLetters = {"data", "event", ":", " ", "\r", "\n",
                                                    "x",    "\xEF\xBB\xBF"};
  constexpr int kLongest = 6;
  std::vector<std::size_t> word;
  std::size_t streams = 0, dispatched = 0;
  const auto next = [&word] {
    for (std::size_t i = word.size(); i-- > 0;) {
      if (++word[i] < kLetters.size()) return true;
      word[i] = 0;
    }
    word.push_back(0);
    return word.size() <= kLongest;
  };
  while (next()) {
    std::string stream;
    for (const std::size_t letter : word) stream += kLetters[letter];
    stream += "\n\n";
    const Outcome expected = sse_reference(stream, SseParser::kMaxEventData);
    Feeder feeder;
    for (const char& c : stream) feeder.feed({&c, 1});
    const bool same = parse({stream}) == expected && feeder.outcome() == expected;
    if (!same) {
      INFO("stream <" << stream << ">");
      REQUIRE(parse({stream}).events == expected.events);
      REQUIRE(feeder.outcome().events == expected.events);
      REQUIRE(same);
    }
    ++streams;
    dispatched += expected.events.size();
  }
  CHECK(streams > 290'000);
  CHECK(dispatched > 10'000);
}

TEST_CASE("An event of 1 MiB, of one line or of many, has its place, and no more memory", "[sse]") {
  const std::string one_line = "data: " + std::string(1 << 20, 'y') + "\r\n\r\n";
  std::string many_lines;
  while (many_lines.size() < (1 << 20)) many_lines += "data: 0123456789\n";
  many_lines += "\n";
  for (const std::string& stream : {one_line, many_lines}) {
    const Outcome expected = sse_reference(stream, SseParser::kMaxEventData);
    REQUIRE(expected.events.size() == 1);
    REQUIRE(expected.events[0].truncated);
    for (const std::size_t every : {std::size_t{1}, std::size_t{1448}, stream.size()}) {
      Feeder feeder;
      for (std::size_t at = 0; at < stream.size(); at += every) {
        feeder.feed(std::string_view(stream).substr(at, every));
      }
      CHECK(feeder.outcome() == expected);
    }
  }
}

TEST_CASE("Bytes that are no UTF-8 change nothing but themselves", "[sse]") {
  const std::string stream = "data: \xFF\xC3\n\ndata: \xF0\x9F\r\n\r\nd\xC0ta: x\n\xEF\xBB\xBF: y\ndata: z\n\n";
  const Outcome outcome = parse({stream});
  REQUIRE(outcome.events.size() == 3);
  CHECK(outcome.events[0].data == "\xFF\xC3");
  CHECK(outcome.events[1].data == "\xF0\x9F");
  CHECK(outcome.comments == 0);
  require_same_for_all_cuts(stream);
}
