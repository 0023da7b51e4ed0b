// SPDX-License-Identifier: Apache-2.0
//
// The parser against traffic that the test makes itself and so knows the truth of: nghttp2's
// compressor, frames written here, everything chosen at random.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "http2_test_support.h"

using gcause::Http2End;
using gcause::Http2Frame;
using gcause::Http2Parser;
using gcause::StreamDirection;
using namespace gcause::test;

namespace {

struct Rules {
  bool uploads = true;  // request bodies, in frames of their own
  bool binary = false;  // bodies of any bytes, instead of text
};

/// What was sent at a time: one write of one side.
struct Sent {
  StreamDirection direction;
  std::string bytes;
  std::vector<std::uint32_t> owners;  // of each byte: the stream whose response body it is of, or 0
};

/// Everything that two peers send, and what it means.
class Traffic {
 public:
  Traffic(unsigned seed, Rules rules) : rules_(rules), random_(seed) {
    client_ = pick(2) ? StreamDirection::read : StreamDirection::write;
    server_ = client_ == StreamDirection::read ? StreamDirection::write : StreamDirection::read;
    send(client_, kHttp2Preface + settings_frame(setting(4, 1 << 20)));
    send(server_, settings_frame());
    for (int step = 0; step < 120; ++step) take_step();
  }

  StreamDirection client() const { return client_; }
  StreamDirection server() const { return server_; }
  const std::vector<Sent>& sent() const { return sent_; }
  /// By stream, with empty bodies: which bytes of them are seen is up to the reader.
  const std::map<std::uint32_t, SeenStream>& truth() const { return truth_; }

 private:
  std::size_t pick(std::size_t count) { return random_() % count; }

  void send(StreamDirection direction, const std::string& bytes, std::uint32_t owner = 0,
            std::size_t body_at = 0, std::size_t body_size = 0) {
    Sent sent{direction, bytes, std::vector<std::uint32_t>(bytes.size(), 0)};
    std::fill_n(sent.owners.begin() + static_cast<std::ptrdiff_t>(body_at), body_size, owner);
    sent_.push_back(std::move(sent));
  }

  /// A header block in one frame or several, with padding and priority at will.
  std::string in_frames(std::uint32_t stream, const std::string& block, bool end_stream) {
    const std::size_t first = pick(3) ? block.size() : pick(block.size() + 1);
    unsigned flags = end_stream ? unsigned{Http2Frame::end_stream} : 0U;
    if (first == block.size()) flags |= Http2Frame::end_headers;
    std::string content = block.substr(0, first);
    if (pick(4) == 0) {
      flags |= Http2Frame::with_priority;
      content.insert(0, big_endian(random_(), 4) + "\x07");
    }
    std::string frames =
        pick(4) ? frame(Http2Frame::headers, flags, stream, content)
                : padded(Http2Frame::headers, flags, stream, content,
                         static_cast<std::uint8_t>(pick(256)));
    for (std::size_t at = first; at < block.size();) {
      const std::size_t size = 1 + pick(block.size() - at);
      const bool last = at + size == block.size();
      frames += frame(Http2Frame::continuation, last ? unsigned{Http2Frame::end_headers} : 0U,
                      stream, block.substr(at, size));
      at += size;
    }
    return frames;
  }

  void take_step() {
    const std::size_t kind = pick(20);
    if (kind < 3) return begin_request();
    if (kind == 3) return send(pick(2) ? client_ : server_, control());
    if (kind == 4) return change_table();
    if (open_.empty()) return;
    const auto at = open_.begin() + static_cast<std::ptrdiff_t>(pick(open_.size()));
    if (kind == 5) return reset(at);
    if (kind < 8 && rules_.uploads) return upload(*at);
    if (!truth_[*at].status) return begin_response(at);
    send_body(at);
  }

  std::string control() {
    const std::array<std::string, 6> frames = {
        kPing, window_update(0), window_update(1), kSettingsAck,
        frame(0xFA, 0x15, 3, std::string(pick(50), 'u')),
        frame(Http2Frame::priority, 0, 1, std::string(5, '\2'))};
    return frames[pick(frames.size())];
  }

  void change_table() {
    const std::array<std::uint32_t, 5> sizes = {0, 100, 1000, 4096, 65536};
    const std::uint32_t size = sizes[pick(sizes.size())];
    const bool of_requests = pick(2) != 0;
    send(of_requests ? server_ : client_, settings_frame(setting(1, size)));
    (of_requests ? request_ : response_).change_table_size(size);
  }

  Headers with_others(Headers headers) {
    for (auto count = pick(4); count > 0; --count) {
      headers.emplace_back("x-" + std::to_string(pick(6)), std::string(pick(60), 'v'));
    }
    return headers;
  }

  void begin_request() {
    const std::uint32_t stream = next_;
    next_ += 2;
    auto& truth = truth_[stream];
    truth.method = pick(2) ? "POST" : "GET";
    truth.host = "host-" + std::to_string(pick(3)) + ".example";
    const bool over = !rules_.uploads || pick(2);
    truth.request_ends = over ? 1 : 0;
    send(client_, in_frames(stream,
                            request_(with_others({{":method", *truth.method},
                                                  {":scheme", "https"},
                                                  {":authority", *truth.host},
                                                  {":path", "/" + std::to_string(pick(9))}}),
                                     pick(9) == 0),
                            over));
    open_.push_back(stream);
  }

  void upload(std::uint32_t stream) {
    auto& truth = truth_[stream];
    if (truth.request_ends != 0) return;
    truth.request_ends = pick(2) ? 1 : 0;
    send(client_, data_frame(stream, body(), static_cast<unsigned>(truth.request_ends)));
  }

  void begin_response(std::vector<std::uint32_t>::iterator at) {
    if (pick(5) == 0) {
      return send(server_, in_frames(*at, response_({{":status", "103"}, {"link", "</a>"}}), false));
    }
    auto& truth = truth_[*at];
    const std::array<std::string, 3> types = {"text/event-stream", "text/plain",
                                              "application/json"};
    truth.status = std::array{200, 200, 404, 429, 299}[pick(5)];
    truth.type = types[pick(types.size())];
    Headers headers = {{":status", std::to_string(*truth.status)},
                       {"content-type", truth.type + (pick(2) ? "" : "; charset=utf-8")}};
    if (pick(4) == 0) {
      truth.encoding = "gzip";
      headers.emplace_back("content-encoding", "gzip");
    }
    const bool over = pick(10) == 0;
    send(server_, in_frames(*at, response_(with_others(headers), pick(9) == 0), over));
    if (over) end(at, Http2End::complete);
  }

  std::string body() {
    std::string text(pick(8) ? pick(300) : pick(16000), 0);
    for (char& c : text) {
      c = rules_.binary ? static_cast<char>(random_()) : "data: {}\n abc"[pick(13)];
    }
    return text;
  }

  void send_body(std::vector<std::uint32_t>::iterator at) {
    const std::uint32_t stream = *at;
    if (pick(30) == 0) {
      send(server_, in_frames(stream, response_({{"x-trailer", "t"}}), true));
      return end(at, Http2End::complete);
    }
    const std::string text = body();
    const bool over = pick(12) == 0;
    const unsigned flags = over ? 1 : 0;
    const auto padding = static_cast<std::uint8_t>(pick(256));
    const bool with_padding = pick(4) == 0;
    send(server_,
         with_padding ? padded(Http2Frame::data, flags, stream, text, padding)
                      : data_frame(stream, text, flags),
         stream, with_padding ? 10 : 9, text.size());
    if (over) end(at, Http2End::complete);
  }

  void reset(std::vector<std::uint32_t>::iterator at) {
    const auto direction = pick(2) ? client_ : server_;
    send(direction, reset_frame(*at));
    end(at, direction == StreamDirection::read ? Http2End::reset_read : Http2End::reset_written);
  }

  void end(std::vector<std::uint32_t>::iterator at, Http2End how) {
    truth_[*at].end = how;
    open_.erase(at);
  }

  Rules rules_;
  std::mt19937 random_;
  StreamDirection client_, server_;
  Deflater request_, response_;
  std::uint32_t next_ = 1;
  std::vector<std::uint32_t> open_;
  std::vector<Sent> sent_;
  std::map<std::uint32_t, SeenStream> truth_;
};

/// Knows of every byte whose it is, and holds what is told of bodies against it.
class Reader : public Http2Seen {
 public:
  Reader(const Traffic& traffic, Http2Parser::Start start) : Http2Seen(start), traffic_(traffic) {
    for (const Sent& sent : traffic.sent()) {
      auto& all = owners_[static_cast<std::size_t>(sent.direction)];
      all.insert(all.end(), sent.owners.begin(), sent.owners.end());
    }
  }

  void take(StreamDirection direction, std::string_view piece) {
    direction_ = direction;
    feed(direction, piece);
  }
  /// The owner of the next byte of a direction.
  std::uint32_t owner(StreamDirection direction, std::size_t at = 0) const {
    const auto& all = owners_[static_cast<std::size_t>(direction)];
    const auto index = fed[static_cast<std::size_t>(direction)] + at;
    return index < all.size() ? all[index] : 0;
  }

  std::uint64_t seen_bytes = 0;

  /// What is told of heads and requests is true, as far as it is told.
  void require_true() const {
    for (const auto& [number, all] : streams) {
      const auto found = traffic_.truth().find(number);
      REQUIRE(found != traffic_.truth().end());
      const SeenStream& truth = found->second;
      for (const SeenStream& seen : all) {
        if (seen.method && !seen.method->empty()) REQUIRE(seen.method == truth.method);
        if (seen.host) REQUIRE(seen.host == truth.host);
        if (!seen.status) continue;
        if (*seen.status != 0) REQUIRE(seen.status == truth.status);
        if (!seen.type.empty()) REQUIRE(seen.type == truth.type);
        if (!seen.encoding.empty()) REQUIRE(seen.encoding == truth.encoding);
        if (!seen.whole) continue;
        REQUIRE(seen.status == truth.status);
        REQUIRE(seen.type == truth.type);
        REQUIRE(seen.encoding == truth.encoding);
      }
    }
  }

 private:
  void saw_body(std::uint32_t stream, std::size_t at, std::size_t size) override {
    if (direction_ == traffic_.client()) {
      REQUIRE_FALSE(parser.requests());  // nothing tells yet that this is a request
      return;
    }
    seen_bytes += size;
    for (std::size_t i = 0; i < size; ++i) {
      if (owner(direction_, at + i) != stream) FAIL("byte of another stream, or of none");
    }
  }

  const Traffic& traffic_;
  std::array<std::vector<std::uint32_t>, 2> owners_;
  StreamDirection direction_ = StreamDirection::read;
};

/// Feeds all of the traffic in pieces of random length, some of them unseen, and returns what has to
/// come of it.
std::map<std::uint32_t, SeenStream> feed_in_pieces(const Traffic& traffic, Reader& reader,
                                                   std::mt19937& random, bool with_skips) {
  auto expected = traffic.truth();
  std::array<std::string, 2> waiting;
  const std::size_t longest = std::array<std::size_t, 4>{3, 30, 1000, 100'000}[random() % 4];
  const auto flush = [&](StreamDirection direction, std::size_t keep) {
    std::string_view rest = waiting[static_cast<std::size_t>(direction)];
    while (rest.size() > keep) {
      std::size_t size = std::min<std::size_t>(1 + random() % longest, rest.size() - keep);
      const auto owner = reader.owner(direction);
      const bool skip = with_skips && owner != 0 && random() % 3 == 0;
      if (skip) {
        std::size_t same = 1;
        while (same < size && reader.owner(direction, same) == owner) ++same;
        expected[owner].skipped += size = same;
        REQUIRE(reader.skip(direction, size));
      } else {
        for (std::size_t i = 0; i < size; ++i) {
          const auto of = reader.owner(direction, i);
          if (of != 0) expected[of].body += rest[i];
        }
        reader.take(direction, rest.substr(0, size));
      }
      rest.remove_prefix(size);
    }
    waiting[static_cast<std::size_t>(direction)] = std::string(rest);
  };
  for (const Sent& sent : traffic.sent()) {
    // Peers answer what they have read.
    const auto other =
        sent.direction == traffic.client() ? traffic.server() : traffic.client();
    flush(other, 0);
    waiting[static_cast<std::size_t>(sent.direction)] += sent.bytes;
    flush(sent.direction, random() % 40);
  }
  flush(traffic.client(), 0);
  flush(traffic.server(), 0);
  return expected;
}

void require_all(unsigned seed, bool with_skips) {
  INFO("seed " << seed);
  std::mt19937 random(seed);
  const Traffic traffic(seed, {true, random() % 2 == 0});
  Reader reader(traffic, seed % 2 ? Http2Parser::Start::connection_begin
                                  : Http2Parser::Start::unknown);
  const auto expected = feed_in_pieces(traffic, reader, random, with_skips);
  REQUIRE(reader.streams.size() == expected.size());
  std::size_t open = 0;
  for (const auto& [number, stream] : expected) {
    INFO("stream " << number);
    REQUIRE(reader.streams[number].size() == 1);
    REQUIRE(reader[number] == stream);
    open += stream.end ? 0 : 1;
  }
  CHECK(reader.parser.open_streams() == open);
  CHECK(reader.parser.requests() == traffic.client());
}

}  // namespace

TEST_CASE("HTTP/2 reference: random traffic, cut anywhere") {
  for (unsigned seed = 0; seed < 2000; ++seed) require_all(seed, false);
}

TEST_CASE("HTTP/2 reference: random traffic, with bytes of bodies unseen") {
  for (unsigned seed = 5000; seed < 6000; ++seed) require_all(seed, true);
}

TEST_CASE("HTTP/2 reference: attached in the middle, all bodies from then on") {
  std::uint64_t decoded = 0, undecoded = 0;
  for (unsigned seed = 0; seed < 2000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Traffic traffic(seed, {false, seed % 2 == 0});
    Reader reader(traffic, Http2Parser::Start::unknown);
    const std::size_t first = 3 + random() % (traffic.sent().size() - 3);
    std::uint64_t bytes = 0;
    for (std::size_t i = 0; i < traffic.sent().size(); ++i) {
      const Sent& sent = traffic.sent()[i];
      if (i < first) {
        reader.fed[static_cast<std::size_t>(sent.direction)] += sent.bytes.size();
        continue;
      }
      reader.take(sent.direction, sent.bytes);
      bytes += static_cast<std::uint64_t>(
          std::ranges::count_if(sent.owners, [](std::uint32_t owner) { return owner != 0; }));
    }
    reader.require_true();
    REQUIRE(reader.seen_bytes == bytes);
    for (const auto& [number, all] : reader.streams) {
      REQUIRE(all.size() == 1);
      if (all[0].end && traffic.truth().at(number).end) {
        REQUIRE(all[0].end == traffic.truth().at(number).end);
      }
      ++(all[0].whole ? decoded : undecoded);
    }
  }
  CHECK(decoded > undecoded);
  CHECK(undecoded > 1000);
}

TEST_CASE("HTTP/2 reference: attached anywhere, with gaps anywhere, nothing is made up") {
  std::uint64_t seen = 0, all = 0;
  for (unsigned seed = 0; seed < 3000; ++seed) {
    INFO("seed " << seed);
    std::mt19937 random(seed);
    const Traffic traffic(seed, {random() % 2 == 0, random() % 2 == 0});
    Reader reader(traffic, Http2Parser::Start::unknown);
    const std::size_t longest = std::array<std::size_t, 3>{50, 1000, 100'000}[random() % 3];
    for (const Sent& sent : traffic.sent()) {
      for (const std::uint32_t owner : sent.owners) all += owner != 0 ? 1 : 0;
      // A whole record may be missing without a trace; then it is known that some are.
      if (random() % 20 == 0) {
        reader.fed[static_cast<std::size_t>(sent.direction)] += sent.bytes.size();
        reader.parser.on_suspicion();
        continue;
      }
      std::string_view rest = sent.bytes;
      while (!rest.empty()) {
        const auto size = std::min<std::size_t>(1 + random() % longest, rest.size());
        if (random() % 25 == 0) {
          reader.skip(sent.direction, size);
        } else {
          reader.take(sent.direction, rest.substr(0, size));
        }
        rest.remove_prefix(size);
      }
    }
    reader.require_true();
    reader.eof();
    REQUIRE(reader.parser.open_streams() == 0);
    seen += reader.seen_bytes;
  }
  CHECK(seen > all / 4);
}
