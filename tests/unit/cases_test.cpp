// SPDX-License-Identifier: Apache-2.0
//
// The cases of tests/cases: what people's streams look like on the wire, fed to the tracker as the
// kernel side would, and on to attribution. What comes out is compared with what the file says.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "attribution/attribution.h"
#include "case_file.h"
#include "sink/names.h"
#include "stream/content_decoder.h"
#include "stream/http1_parser.h"
#include "stream/ndjson_parser.h"
#include "stream/sse_parser.h"
#include "stream_test_support.h"

namespace gcause::test {
namespace {

/// The data of the events of one connection, which the tracker keeps to itself: the same bytes, cut
/// in the same places, through the same parsers.
class Content final : public Http1ResponseHandler {
 public:
  void begin() { http_ = Http1ResponseParser(Http1ResponseParser::Start::unknown); }
  void read(const std::string& bytes) { http_.feed(std::as_bytes(std::span(bytes)), *this); }
  void ended() { http_.on_eof(*this); }
  const std::vector<std::vector<std::string>>& streams() const { return streams_; }

  void on_head(const ResponseHead& head) override {
    lines_ = head.content_type == "application/x-ndjson";
    open_ = lines_ || head.content_type == kEventStream;
    if (!open_) return;
    streams_.emplace_back();
    decoder_ = ContentDecoder::make(head.content_encoding);
    events_.reset();
    ndjson_ = NdjsonParser();
  }
  void on_body(std::span<const std::byte> piece, std::size_t) override {
    if (!open_ || !decoder_) return;
    decoder_->feed(piece, [&](std::span<const std::byte> text) {
      if (lines_) {
        ndjson_.feed(text, [&](const NdjsonParser::Line& line) { add(line.data); });
      } else {
        events_.feed(text, [&](const SseParser::Event& event) { add(event.data); });
      }
    });
  }
  void on_body_skipped(std::uint64_t count) override { events_.skip(count); }
  void on_end(bool) override { open_ = false; }

 private:
  void add(std::string_view data) { streams_.back().emplace_back(data); }

  Http1ResponseParser http_{Http1ResponseParser::Start::unknown};
  bool open_ = false;
  bool lines_ = false;
  std::optional<ContentDecoder> decoder_;
  SseParser events_;
  NdjsonParser ndjson_;
  std::vector<std::vector<std::string>> streams_;
};

/// Runs the steps of one run on a Machine.
class Player {
 public:
  explicit Player(const Json& run) : run_(run) {
    for (const auto& step : run.at("steps")) play(step);
    machine.tracker.finish(now_ + kMillisecond);
  }

  std::vector<std::vector<std::string>> content() const {
    std::vector<std::vector<std::string>> all;
    for (const auto& [name, connection] : connections_) {
      const auto& streams = connection.content->streams();
      all.insert(all.end(), streams.begin(), streams.end());
    }
    return all;
  }

  /// The last step.
  Ns end() const { return now_; }

  Machine machine;

 private:
  struct Connection {
    std::uint64_t socket = 0;
    bool tls = false;
    std::unique_ptr<Content> content = std::make_unique<Content>();
  };

  void play(const Json& step) {
    static const std::set<std::string> known = {"at",    "connection", "read",  "write",
                                                "arrived", "copied",   "every", "repeat",
                                                "apart", "eof",        "error", "close",
                                                "pause"};
    for (const auto& [key, value] : step.items()) {
      if (!known.contains(key)) throw std::runtime_error("a step has no " + key);
    }
    now_ = ns_of(step.at("at"));
    if (step.contains("pause")) return pause(step.at("pause"));
    const std::string name = step.value("connection", "a");
    Connection& connection = use(name);
    if (step.contains("write")) write(connection, bytes_of(step.at("write")));
    if (step.contains("read")) read(connection, step);
    if (step.contains("eof")) fail(connection, 0);
    if (step.contains("error")) fail(connection, -step.at("error").get<std::int64_t>());
    if (step.contains("close")) {
      machine.closed(now_, true);
      if (connection.tls) machine.tracker.tls_freed({now_, machine.pid, tls_of(connection)});
      connection.content->ended();
      connection.socket = 0;
    }
  }

  Connection& use(const std::string& name) {
    Connection& connection = connections_[name];
    if (connection.socket == 0) {
      connection.socket = next_socket_++;
      connection.content->begin();
      connection.tls = run_.value("tls", false);
      machine.socket = connection.socket;
      machine.seen();
    }
    machine.socket = connection.socket;
    return connection;
  }

  static std::uint64_t tls_of(const Connection& connection) { return 0x7F00 + connection.socket; }

  void write(Connection& connection, const std::string& bytes) {
    if (connection.tls) {
      machine.tls_writes(bytes, now_, tls_of(connection));
    } else {
      machine.writes(bytes, now_);
    }
  }

  void read(Connection& connection, const Json& step) {
    const std::string bytes = bytes_of(step.at("read"));
    const std::size_t every = step.value("every", bytes.size());
    const Ns apart = step.contains("apart") ? ns_of(step.at("apart")) : 0;
    const Ns begin = now_;
    Ns reads = 0;
    for (auto times = step.value("repeat", 1); times > 0; --times) {
      for (std::size_t at = 0; at < bytes.size(); at += every) {
        now_ = begin + apart * reads++;
        read_one(connection, bytes.substr(at, every), step);
      }
    }
  }

  /// "arrived": the time of the whole read, or [bytes, time] of each part of it.
  void read_one(Connection& connection, const std::string& bytes, const Json& step) {
    const std::size_t on_wire = connection.tls ? sealed(bytes).size() : bytes.size();
    const Json arrived = step.contains("arrived") ? step.at("arrived") : Json();
    if (arrived.is_array()) {
      for (const auto& part : arrived) {
        machine.arrives(part.at(0).get<std::size_t>(), ns_of(part.at(1)));
      }
    } else {
      machine.arrives(on_wire, arrived.is_null() ? now_ : ns_of(arrived));
    }
    if (step.contains("copied")) {
      machine.reads_partly(bytes, step.at("copied").get<std::size_t>(), now_);
      return;
    }
    if (connection.tls) {
      machine.library_reads(on_wire, now_);
      machine.tls_reads(bytes, now_, now_, tls_of(connection));
    } else {
      machine.reads(bytes, now_);
    }
    connection.content->read(bytes);
  }

  void fail(Connection& connection, std::int64_t result) {
    machine.fails(result, now_);
    connection.content->ended();
  }

  void pause(const Json& json) {
    PauseEnded ended{};
    ended.id = ++pauses_;
    ended.pid = machine.pid;
    ended.tid = json.value("thread", machine.tid);
    ended.generation = json.at("generation").get<std::int32_t>();
    ended.begin = now_;
    ended.end = now_ + ns_of(json.at("lasts"));
    machine.consume(PauseBegan{ended.begin, ended.pid, ended.tid});
    machine.consume(ended);
  }

  const Json& run_;
  Ns now_ = 0;
  std::map<std::string, Connection> connections_;
  std::uint64_t next_socket_ = Machine::kSocket;
  std::uint64_t pauses_ = 0;
};

/// What attribution makes of a timeline.
std::vector<Finding> findings_of(const std::vector<TimelineEvent>& timeline, Ns budget, Ns end) {
  std::vector<Finding> findings;
  Attribution attribution([&](const Finding& finding) { findings.push_back(finding); });
  attribution.consume(SessionStarted{"test", 0, 0, budget, "test", {}});
  for (const auto& event : timeline) attribution.consume(event);
  attribution.consume(RecordingEnded{end});
  attribution.finish();
  return findings;
}

template <typename F>
std::vector<F> only(const std::vector<Finding>& findings) {
  std::vector<F> found;
  for (const auto& finding : findings) {
    if (const auto* wanted = std::get_if<F>(&finding)) found.push_back(*wanted);
  }
  return found;
}

/// All that a file may expect of one stream, as the file would say it.
Json as_json(const StreamFinding& stream, const Machine& machine,
             const std::vector<Finding>& findings) {
  const auto& body = stream.ended.body.value();
  Json seen;
  seen["format"] = name_of(stream.began.format);
  seen["protocol"] = name_of(stream.began.protocol);
  seen["coding"] = stream.began.content_coding;
  seen["host"] = stream.began.host.value_or("");
  seen["model"] = stream.ended.model.value_or("");
  seen["chunks"] = stream.chunks;
  std::uint64_t events = 0;
  seen["events"] = Json::object();
  for (const auto& event : body.events) {
    seen["events"][event.name] = event.count;
    events += event.count;
  }
  seen["comments"] = stream.ended.comments - (events - stream.chunks);
  seen["truncated_events"] = body.truncated;
  seen["reads"] = body.reads;
  seen["bytes"] = stream.ended.bytes;
  seen["end"] = name_of(stream.ended.end);
  seen["undecoded"] = body.undecoded ? name_of(*body.undecoded) : std::string_view();
  for (const auto key : {"read_at", "arrived_at", "gaps"}) seen[key] = Json::array();
  for (const auto& chunk : machine.chunks()) {
    if (chunk.stream != stream.began.id) continue;
    seen["read_at"].push_back(chunk.read);
    seen["arrived_at"].push_back(chunk.arrival.value_or(-1));
  }
  for (const auto& gap : only<GapFinding>(findings)) {
    if (gap.stream == stream.began.id) seen["gaps"].push_back(gap.gap);
  }
  seen["ended_at"] = stream.ended.at;
  seen["longest_silence"] = body.longest_silence;
  seen["first_chunk"] = stream.first_chunk ? Json(stream.first_chunk->time) : Json();
  return seen;
}

void check_stream(const Json& expected, const Json& seen) {
  for (const auto& [key, value] : expected.items()) {
    INFO(key << ": " << seen.at(key).dump());
    if (seen.at(key).is_array()) {
      CHECK(times_of(value) == seen.at(key).get<std::vector<Ns>>());
    } else if (key == "ended_at" || key == "longest_silence" || key == "first_chunk") {
      CHECK(ns_of(value) == seen.at(key).get<Ns>());
    } else {
      // Objects are compared as sets of members.
      CHECK(nlohmann::json(value) == nlohmann::json(seen.at(key)));
    }
  }
}

void check_verdicts(const Json& expected, const std::vector<Finding>& findings) {
  std::map<std::string, std::uint64_t> seen;
  for (const auto& gap : only<GapFinding>(findings)) {
    if (gap.verdict) ++seen[std::string(name_of(*gap.verdict))];
  }
  CHECK(expected.get<std::map<std::string, std::uint64_t>>() == seen);
}

void check_unread(const Json& expected, const std::vector<StreamUnread>& seen) {
  REQUIRE(expected.size() == seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(expected[i].at("format").get<std::string>() == name_of(seen[i].format));
    CHECK(expected[i].at("content_type").get<std::string>() == seen[i].content_type);
    CHECK(expected[i].at("reads").get<std::uint64_t>() == seen[i].reads);
  }
}

void check_run(const Json& run) {
  const Player player(run);
  const Json& expect = run.at("expect");
  const Ns budget = run.contains("budget") ? ns_of(run.at("budget")) : 100 * kMillisecond;
  const auto findings = findings_of(player.machine.timeline, budget, player.end());
  auto streams = only<StreamFinding>(findings);
  std::ranges::sort(streams, {}, [](const StreamFinding& stream) { return stream.began.id; });
  REQUIRE(expect.at("streams").size() == streams.size());
  for (std::size_t i = 0; i < streams.size(); ++i) {
    INFO("stream " << i);
    check_stream(expect["streams"][i], as_json(streams[i], player.machine, findings));
  }
  const Json unread = expect.contains("unread") ? expect.at("unread") : Json::array();
  check_unread(unread, only<StreamUnread>(findings));
  if (expect.contains("verdicts")) check_verdicts(expect["verdicts"], findings);
  if (!expect.contains("data")) return;
  const auto content = player.content();
  REQUIRE(expect["data"].size() == content.size());
  for (std::size_t i = 0; i < content.size(); ++i) {
    INFO("data of stream " << i);
    std::vector<std::string> data;
    for (const auto& event : expect["data"][i]) data.push_back(bytes_of(event));
    CHECK(data == content[i]);
  }
}

}  // namespace

TEST_CASE("every case is seen as it is", "[cases]") {
  const auto files = case_files();
  REQUIRE(files.size() >= 15);
  for (const auto& file : files) {
    for (const auto& run : runs_of(file)) {
      INFO(file << ": " << run.at("name").get<std::string>());
      check_run(run);
    }
  }
}

}  // namespace gcause::test
