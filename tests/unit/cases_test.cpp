// SPDX-License-Identifier: Apache-2.0
//
// The cases of tests/cases: what people's streams look like on the wire, fed to the tracker as the
// kernel side would, and on to attribution. What comes out is compared with what the file says.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <variant>
#include <vector>

#include "attribution/attribution.h"
#include "case_content.h"
#include "case_file.h"
#include "sink/names.h"
#include "stream_test_support.h"

namespace gcause::test {
namespace {

/// What lies between the bytes of the steps and the socket.
enum class Carrier {
  plain,
  tls,     ///< a TLS library that reads the socket itself
  memory,  ///< a TLS library that an event loop hands the ciphertext
  unread,  ///< TLS of which no library is seen
};

Carrier carrier_of(const Json& run, const std::string& connection) {
  Json tls = run.value("tls", Json(false));
  if (tls.is_object()) tls = tls.value(connection, Json(false));
  if (tls.is_boolean()) return tls.get<bool>() ? Carrier::tls : Carrier::plain;
  if (tls == "memory") return Carrier::memory;
  if (tls == "unread") return Carrier::unread;
  throw std::runtime_error("no such tls: " + tls.dump());
}

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
    std::uint64_t tls = 0;  ///< address of the TLS object: that of the one before is used again
    Carrier carrier = Carrier::plain;
    std::unique_ptr<CaseContent> content;
  };

  static void check_keys(const Json& step) {
    static const std::set<std::string> known = {
        "at",    "connection", "read",  "write", "arrived", "copied", "every",  "repeat",
        "apart", "eof",        "error", "close", "pause",   "wants",  "record", "reader"};
    for (const auto& [key, value] : step.items()) {
      if (!known.contains(key)) throw std::runtime_error("a step has no " + key);
    }
  }

  void play(const Json& step) {
    check_keys(step);
    now_ = ns_of(step.at("at"));
    if (step.contains("pause")) return pause(step.at("pause"));
    Connection& connection = use(step.value("connection", "a"));
    if (step.contains("write")) write(connection, step);
    if (step.contains("read")) read(connection, step);
    if (step.contains("reader")) {
      const std::string object = step.at("reader").get<std::string>();
      machine.consume(TlsReaderFound{now_, machine.pid, connection.socket, object});
    }
    if (step.contains("eof")) fail(connection, 0);
    if (step.contains("error")) fail(connection, -step.at("error").get<std::int64_t>());
    if (step.contains("close")) close(connection);
  }

  Connection& use(const std::string& name) {
    const bool is_new = !connections_.contains(name);
    Connection& connection = connections_[name];
    if (is_new) {
      connection.tls = Machine::kTls + connections_.size();
      connection.carrier = carrier_of(run_, name);
      connection.content = std::make_unique<CaseContent>(run_.value("protocol", "http1") == "h2");
    }
    machine.socket = connection.socket;
    if (connection.socket == 0) {
      machine.socket = connection.socket = next_socket_++;
      connection.content->begin();
      machine.seen();
    }
    return connection;
  }

  static bool has_library(const Connection& connection) {
    return connection.carrier == Carrier::tls || connection.carrier == Carrier::memory;
  }

  /// The bytes of a step as the socket carries them.
  static std::string on_wire(const Connection& connection, const std::string& bytes,
                             const Json& step) {
    if (connection.carrier == Carrier::plain) return bytes;
    return sealed(bytes, static_cast<char>(step.value("record", 23)));
  }

  void write(Connection& connection, const Json& step) {
    const std::string bytes = bytes_of(step.at("write"));
    if (has_library(connection)) {
      machine.tls_writes(bytes, now_, connection.tls);
    } else {
      machine.writes(on_wire(connection, bytes, step), now_);
    }
    connection.content->wrote(bytes);
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
        arrive(on_wire(connection, bytes.substr(at, every), step).size(), step);
        read_one(connection, bytes.substr(at, every), step);
        if (step.contains("wants")) want(connection, bytes_of(step.at("wants")));
      }
    }
  }

  /// "arrived": the time of the whole read, or [bytes, time] of each part of it.
  void arrive(std::size_t bytes, const Json& step) {
    const Json arrived = step.contains("arrived") ? step.at("arrived") : Json();
    if (!arrived.is_array())
      return machine.arrives(bytes, arrived.is_null() ? now_ : ns_of(arrived));
    for (const auto& part : arrived) {
      machine.arrives(part.at(0).get<std::size_t>(), ns_of(part.at(1)));
    }
  }

  void read_one(Connection& connection, const std::string& bytes, const Json& step) {
    if (step.contains("copied")) {
      machine.reads_partly(bytes, step.at("copied").get<std::size_t>(), now_);
      return;
    }
    const std::string wire = on_wire(connection, bytes, step);
    if (connection.carrier == Carrier::tls) {
      machine.library_reads(wire.size(), now_);
      machine.tls_reads(bytes, now_, now_, connection.tls);
    } else if (connection.carrier == Carrier::memory) {
      // The library is called behind the read of the socket.
      machine.reads(wire, now_ - 2);
      machine.tls_reads(bytes, now_ - 1, now_, connection.tls);
    } else {
      machine.reads(wire, now_);
    }
    connection.content->read(bytes);
  }

  /// A TLS read that fails, with these bytes of an earlier one still in its buffer.
  void want(Connection& connection, const std::string& stale) {
    if (!has_library(connection)) throw std::runtime_error("only a TLS library wants to read");
    auto io = machine.io_at(now_, Direction::read, stale);
    io.layer = Layer::tls;
    io.connection = connection.tls;
    io.socket = 0;
    io.result = -1;
    machine.tracker.io(io);
  }

  void fail(Connection& connection, std::int64_t result) {
    machine.fails(result, now_);
    connection.content->ended();
  }

  void close(Connection& connection) {
    machine.closed(now_, true);
    if (has_library(connection)) machine.tracker.tls_freed({now_, machine.pid, connection.tls});
    connection.content->ended();
    connection.socket = 0;
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

/// What is known of a stream whose body could be read.
void add_body(Json& seen, const StreamFinding& stream, const BodySeen& body) {
  std::uint64_t events = 0;
  seen["events"] = Json::object();
  for (const auto& event : body.events) {
    seen["events"][event.name] = event.count;
    events += event.count;
  }
  seen["comments"] = stream.ended.comments - (events - stream.chunks);
  seen["truncated_events"] = body.truncated;
  seen["reads"] = body.reads;
  seen["undecoded"] = body.undecoded ? name_of(*body.undecoded) : std::string_view();
  seen["longest_silence"] = body.longest_silence;
}

/// All that a file may expect of one stream, as the file would say it.
Json as_json(const StreamFinding& stream, const Machine& machine,
             const std::vector<Finding>& findings) {
  Json seen;
  seen["format"] = name_of(stream.began.format);
  seen["protocol"] = name_of(stream.began.protocol);
  seen["coding"] = stream.began.content_coding;
  seen["host"] = stream.began.host.value_or("");
  seen["model"] = stream.ended.model.value_or("");
  seen["chunks"] = stream.chunks;
  seen["bytes"] = stream.ended.bytes;
  seen["end"] = name_of(stream.ended.end);
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
  seen["first_chunk"] = stream.first_chunk ? Json(stream.first_chunk->time) : Json();
  if (stream.ended.body) add_body(seen, stream, *stream.ended.body);
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

void check_tls_unread(const Json& expected, const std::vector<TlsUnreadFinding>& seen) {
  REQUIRE(expected.size() == seen.size());
  for (std::size_t i = 0; i < seen.size(); ++i) {
    CHECK(expected[i].at("library").get<std::string>() == seen[i].library.value_or(""));
    CHECK(expected[i].at("records").get<std::uint64_t>() == seen[i].connection.records);
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
  const Json tls_unread = expect.contains("tls_unread") ? expect.at("tls_unread") : Json::array();
  check_tls_unread(tls_unread, only<TlsUnreadFinding>(findings));
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
  REQUIRE(files.size() >= 19);
  for (const auto& file : files) {
    for (const auto& run : runs_of(file)) {
      INFO(file << ": " << run.at("name").get<std::string>());
      check_run(run);
    }
  }
}

}  // namespace gcause::test
