// SPDX-License-Identifier: Apache-2.0
#include "recording/recording.h"

#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
#include <fstream>
#include <string>
#include <vector>

#include "recording/archive.h"
#include "recording/timeline_fields.h"
#include "sink_test_support.h"

namespace gcause {
namespace {

using Catch::Matchers::ContainsSubstring;

/// Every event type with every field set.
std::vector<TimelineEvent> full_events() {
  return {
      SessionStarted{
          "0.1.0", -1, 1'700'000'000'000'000'000, 1, "6.18", {{"a", true}, {"b", false}}},
      ProcessFollowed{42,
                      0xFFFFFFFFFFFFFFFF,
                      "/usr/bin/python3",
                      "3.13.1",
                      true,
                      CollectorMethod::scan,
                      "/usr/lib/libpython.so",
                      "gc_collect_main",
                      0x8000000000000000,
                      {{"/a", {"SSL_read", ""}}, {"/b", {}}},
                      5},
      PauseBegan{1, 2, 3},
      PauseEnded{7, 42, 43, -5, PauseKind::stop_the_world, 2, PauseReason::shutdown, 10, 20, 9,
                 800},
      StreamBegan{9, 42, StreamDirection::write, "10.0.0.1:443", "api.example", true,
                  StreamProtocol::tls_records, 100, 90},
      ChunkRead{9, 0xFFFFFFFF, 42, 43, 17, 110, 105},
      StreamEnded{9, 42, 120, StreamEnd::open, std::string("m\0x", 3), 3, 1ull << 40},
      WaitBegan{130, 42, 43},
      Lost{42, "ring", 12, 100, 200},
      ProcessEnded{140, 42},
      RecordingEnded{150},
  };
}

/// The same with every optional field empty.
std::vector<TimelineEvent> bare_events() {
  return {
      SessionStarted{"", 0, 0, 0, "", {}},
      ProcessFollowed{
          42, 0, "", std::nullopt, std::nullopt, CollectorMethod::usdt, "", "", 0, {}, 0},
      PauseBegan{},
      PauseEnded{7, 42, 43, {}, PauseKind::gc, {}, {}, 10, 20, {}, {}},
      StreamBegan{9, 42, StreamDirection::read, {}, {}, false, StreamProtocol::http1, 100, {}},
      ChunkRead{9, 0, 42, 43, 17, 110, {}},
      StreamEnded{9, 42, 120, StreamEnd::done, {}, 0, 0},
      WaitBegan{},
      Lost{{}, "", 0, 0, 0},
      ProcessEnded{},
      RecordingEnded{},
  };
}

/// What an event is in a file; two events are the same if this is.
std::vector<std::uint8_t> bytes_of(const TimelineEvent& event) {
  Writer writer;
  writer(static_cast<std::uint8_t>(event.index()));
  std::visit([&](const auto& e) { writer(e); }, event);
  return writer.bytes();
}

class Folder : public test::TempFolder {
 public:
  std::string write(const std::vector<TimelineEvent>& events,
                    FileKind kind = FileKind::recording) const {
    auto writer = RecordingWriter::make(file("out"), kind);
    REQUIRE(writer);
    for (const auto& event : events) (*writer)->consume(event);
    REQUIRE((*writer)->finish());
    return test::read_file(file("out"));
  }

  std::string put(const std::string& bytes) const {
    std::ofstream(file("in"), std::ios::binary | std::ios::trunc) << bytes;
    return file("in");
  }
};

struct Replayed {
  std::vector<TimelineEvent> events;
  std::string records;
  std::optional<Error> error;
};

Replayed replay_of(const std::string& path, FileKind kind = FileKind::recording) {
  Replayed replayed;
  const auto result = replay(path, kind,
                             {[&](const TimelineEvent& event) { replayed.events.push_back(event); },
                              [&](std::span<const std::byte> records) {
                                replayed.records.append(
                                    reinterpret_cast<const char*>(records.data()), records.size());
                              }});
  if (!result) replayed.error = result.error();
  return replayed;
}

TEST_CASE("every event survives a recording, whatever it knows") {
  const auto events = GENERATE(full_events(), bare_events());
  const Folder folder;
  folder.write(events);
  const auto replayed = replay_of(folder.file("out"));
  CHECK_FALSE(replayed.error);
  REQUIRE(replayed.events.size() == events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    CAPTURE(i);
    CHECK(bytes_of(replayed.events[i]) == bytes_of(events[i]));
  }
}

TEST_CASE("fields come back as they were, not as other fields") {
  const Folder folder;
  folder.write(full_events());
  const auto events = replay_of(folder.file("out")).events;
  REQUIRE(events.size() == 11);
  const auto& session = std::get<SessionStarted>(events[0]);
  CHECK(session.version == "0.1.0");
  CHECK(session.monotonic == -1);
  CHECK(session.wall == 1'700'000'000'000'000'000);
  CHECK(session.budget == 1);
  CHECK(session.kernel == "6.18");
  CHECK(session.features == std::map<std::string, bool>{{"a", true}, {"b", false}});
  const auto& process = std::get<ProcessFollowed>(events[1]);
  CHECK(process.start_ticks == 0xFFFFFFFFFFFFFFFF);
  CHECK(process.python_version == "3.13.1");
  CHECK(process.free_threaded == true);
  CHECK(process.collector_method == CollectorMethod::scan);
  CHECK(process.collector_symbol == "gc_collect_main");
  REQUIRE(process.tls.size() == 2);
  CHECK(process.tls[0].functions == std::vector<std::string>{"SSL_read", ""});
  CHECK(process.seen_from == 5);
  const auto& pause = std::get<PauseEnded>(events[3]);
  CHECK(pause.id == 7);
  CHECK(pause.interpreter == -5);
  CHECK(pause.kind == PauseKind::stop_the_world);
  CHECK(pause.generation == 2);
  CHECK(pause.reason == PauseReason::shutdown);
  CHECK(pause.begin == 10);
  CHECK(pause.end == 20);
  CHECK(pause.cpu == 9);
  CHECK(pause.collected == 800);
  const auto& began = std::get<StreamBegan>(events[4]);
  CHECK(began.direction == StreamDirection::write);
  CHECK(began.peer == "10.0.0.1:443");
  CHECK(began.host == "api.example");
  CHECK(began.tls);
  CHECK(began.protocol == StreamProtocol::tls_records);
  CHECK(began.request_end == 90);
  const auto& chunk = std::get<ChunkRead>(events[5]);
  CHECK(chunk.index == 0xFFFFFFFF);
  CHECK(chunk.bytes == 17);
  CHECK(chunk.read == 110);
  CHECK(chunk.arrival == 105);
  const auto& ended = std::get<StreamEnded>(events[6]);
  CHECK(ended.end == StreamEnd::open);
  CHECK(ended.model == std::string("m\0x", 3));
  CHECK(ended.bytes == 1ull << 40);
  const auto& lost = std::get<Lost>(events[8]);
  CHECK(lost.pid == 42u);
  CHECK(lost.count == 12);
  CHECK(lost.from == 100);
  CHECK(lost.to == 200);
}

TEST_CASE("the collector's settings survive a recording, known or not") {
  auto followed = std::get<ProcessFollowed>(full_events()[1]);
  followed.gc = CollectorSettings{true, {700, 10, -1}, {1, 2, 1ll << 40}, 12'345};
  const CollectorSettings changed{false, {0, 0, 0}, {699, 0, 0}, 0};
  const std::vector<TimelineEvent> events = {followed, SettingsChanged{7, 42, 3, changed},
                                             SettingsChanged{8, 42, 0, {}}, RecordingEnded{9}};
  const Folder folder;
  folder.write(events);
  const auto replayed = replay_of(folder.file("out"));
  CHECK_FALSE(replayed.error);
  REQUIRE(replayed.events.size() == 4);
  CHECK(std::get<ProcessFollowed>(replayed.events[0]).gc == followed.gc);
  const auto& settings = std::get<SettingsChanged>(replayed.events[1]);
  CHECK(settings.at == 7);
  CHECK(settings.pid == 42);
  CHECK(settings.interpreter == 3);
  CHECK(settings.gc == changed);
  CHECK(std::get<SettingsChanged>(replayed.events[2]).gc == CollectorSettings{});
}

TEST_CASE("what later versions added survives a recording") {
  auto began = std::get<StreamBegan>(full_events()[4]);
  began.format = StreamFormat::ndjson;
  began.content_type = "application/jsonl";
  began.content_coding = "br";
  auto ended = std::get<StreamEnded>(full_events()[6]);
  ended.body = BodySeen{{{"chunk", 5}}, 1, 7, 100, 120, 15, Undecoded::gap};
  const StreamUnread unread{42,
                            StreamDirection::read,
                            "10.0.0.1:80",
                            {},
                            true,
                            StreamProtocol::h2,
                            UnreadFormat::websocket,
                            "",
                            1,
                            2,
                            3,
                            4};
  const std::vector<TimelineEvent> events = {
      ChunkRead{9, 1, 42, 43, 17, 110, 105, 0xFFFFFFFF},
      WaitBegan{130, 42, 43, 7},
      InterpreterFound{131, 42, 3, 0},
      ThreadFound{132, 42, 43, 3},
      ThreadFound{133, 42, 43, {}},
      LockWaited{111, 125, 42, 43},
      ChunkRead{9, 2, 42, 43, 17, 140, 105, {}, ChunkPlace{8, 7}},
      TlsLibraryProbed{140, 42, {"/a.so", {"SSL_read"}}},
      TlsReaderFound{141, 42, 70, "/b.so"},
      TlsUnread{42, 70, 7, "peer", 1, 2, 3, 4, 5, 6, 8},
      TlsUnread{42, 70, {}, {}, 1, 2, 3, 4, 5, 6, {}},
      began,
      ended,
      unread,
      RecordingEnded{150}};
  const Folder folder;
  folder.write(events);
  const auto replayed = replay_of(folder.file("out"));
  CHECK_FALSE(replayed.error);
  REQUIRE(replayed.events.size() == events.size());
  for (std::size_t i = 0; i < events.size(); ++i) {
    CAPTURE(i);
    CHECK(bytes_of(replayed.events[i]) == bytes_of(events[i]));
  }
  CHECK(std::get<ChunkRead>(replayed.events[0]).run_delay == 0xFFFFFFFF);
  CHECK(std::get<WaitBegan>(replayed.events[1]).run_delay == 7);
  CHECK(std::get<StreamEnded>(replayed.events[12]).body->undecoded == Undecoded::gap);
  CHECK(std::get<ChunkRead>(replayed.events[6]).source == ChunkPlace{8, 7});
}

TEST_CASE("nothing that comes of a chunk's data is in a recording") {
  ChunkRead chunk{9, 1, 42, 43, 17, 110, 105};
  const auto without = bytes_of(chunk);
  chunk.likeness = 0x1234;
  CHECK(bytes_of(chunk) == without);
}

TEST_CASE("a recording made by the first release of version 1 is still read") {
  // data/v1.gcause was written from full_events() and bare_events() and is never written again: if
  // this fails, users' recordings cannot be read any more.
  const auto replayed = replay_of(GCAUSE_TEST_DATA "/data/v1.gcause");
  CHECK_FALSE(replayed.error);
  auto expected = full_events();
  for (const auto& event : bare_events()) expected.push_back(event);
  REQUIRE(replayed.events.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CAPTURE(i);
    CHECK(bytes_of(replayed.events[i]) == bytes_of(expected[i]));
  }
}

TEST_CASE("a recording cut off anywhere says so, and hands on all that is whole") {
  const Folder folder;
  const auto events = full_events();
  const auto whole = folder.write(events);
  std::vector<std::size_t> ends;  // of the frames
  for (std::size_t count = 0; count <= events.size(); ++count) {
    ends.push_back(
        folder.write({events.begin(), events.begin() + static_cast<long>(count)}).size());
  }
  for (std::size_t cut = 0; cut < whole.size(); ++cut) {
    const auto replayed = replay_of(folder.put(whole.substr(0, cut)));
    std::size_t expected = 0;
    while (expected < events.size() && ends[expected + 1] <= cut) ++expected;
    CAPTURE(cut);
    REQUIRE(replayed.error);
    REQUIRE(replayed.events.size() == expected);
    REQUIRE(replayed.error->what.find(cut < 8 ? "not a recording" : "cut off") !=
            std::string::npos);
    REQUIRE_FALSE(replayed.error->cure.empty());
  }
}

TEST_CASE("a recording that was not ended in order says so") {
  const Folder folder;
  folder.write({PauseBegan{1, 2, 3}});
  const auto replayed = replay_of(folder.file("out"));
  CHECK(replayed.events.size() == 1);
  REQUIRE(replayed.error);
  CHECK_THAT(replayed.error->what, ContainsSubstring("cut off at byte 35"));
}

TEST_CASE("a recording of a later version is refused before anything of it is handed on") {
  const Folder folder;
  auto bytes = folder.write(full_events());
  bytes[8] = 2;
  const auto replayed = replay_of(folder.put(bytes));
  CHECK(replayed.events.empty());
  REQUIRE(replayed.error);
  CHECK_THAT(replayed.error->what, ContainsSubstring("later gcause"));
  CHECK_THAT(replayed.error->what, ContainsSubstring("version 2"));
}

std::string frame(std::uint16_t kind, const std::string& body) {
  Writer head;
  head(static_cast<std::uint32_t>(body.size()))(kind);
  return std::string(head.bytes().begin(), head.bytes().end()) + body;
}

/// Two whole frames around one that the test makes.
std::string with_frame(const Folder& folder, const std::string& middle) {
  const auto bytes = folder.write({WaitBegan{1, 2, 3}, RecordingEnded{5}});
  constexpr std::size_t kFirst = 8 + 4 + 6 + 17;  // magic word, version, frame head, WaitBegan
  return bytes.substr(0, kFirst) + middle + bytes.substr(kFirst);
}

TEST_CASE("frames and fields of later versions are passed over") {
  const Folder folder;
  SECTION("a frame of a kind that nobody knows") {
    const auto replayed = replay_of(folder.put(with_frame(folder, frame(999, "whatever"))));
    CHECK_FALSE(replayed.error);
    CHECK(replayed.events.size() == 2);
  }
  SECTION("a field behind the ones that are known") {
    const auto middle =
        frame(8, std::string("\x07\0\0\0\0\0\0\0\x42\0\0\0\x43\0\0\0\0\0", 17) + "more");
    const auto replayed = replay_of(folder.put(with_frame(folder, middle)));
    CHECK_FALSE(replayed.error);
    REQUIRE(replayed.events.size() == 3);
    CHECK(std::get<WaitBegan>(replayed.events[1]).at == 7);
    CHECK(std::get<WaitBegan>(replayed.events[1]).tid == 0x43);
  }
}

TEST_CASE("a damaged frame is an error behind all that is whole") {
  const Folder folder;
  const std::string middle =
      GENERATE(frame(8, "short"), frame(8, ""), frame(1, std::string("\xFF\xFF\xFF\xFF", 4)),
               frame(2, std::string(40, '\xFF')), std::string("\xFF\xFF\xFF\xFF\x08\0", 6));
  const auto replayed = replay_of(folder.put(with_frame(folder, middle)));
  REQUIRE(replayed.error);
  CHECK(replayed.events.size() == 1);
}

TEST_CASE("a value that no enum has is damage") {
  // The sinks abort on one: they trust the stage that made it.
  const Folder folder;
  auto bytes = folder.write({StreamEnded{9, 42, 120, StreamEnd::done, {}, 0, 0}, RecordingEnded{}});
  bytes[12 + 6 + 8 + 4 + 8] = '\xC8';
  const auto replayed = replay_of(folder.put(bytes));
  CHECK(replayed.error);
  CHECK(replayed.events.empty());
}

TEST_CASE("what is no recording is refused, and named") {
  const Folder folder;
  const std::string bytes =
      GENERATE("", "{\"type\":\"session\"}", "GCAUSE\n\r\x01", "GCRAW\x1a\r\n");
  const auto path = folder.put(bytes);
  const auto replayed = replay_of(path);
  REQUIRE(replayed.error);
  CHECK(replayed.error->what == path + " is not a recording of gcause");
  CHECK_THAT(replayed.error->cure, ContainsSubstring("gcause record"));
  CHECK_FALSE(is_recording(path));
}

TEST_CASE("a file that is not there is an error of its own") {
  const Folder folder;
  const auto replayed = replay_of(folder.file("missing"));
  REQUIRE(replayed.error);
  CHECK_THAT(replayed.error->what, ContainsSubstring("No such file"));
  CHECK_FALSE(is_recording(folder.file("missing")));
}

TEST_CASE("a recording is known by its beginning") {
  const Folder folder;
  folder.write({});
  CHECK(is_recording(folder.file("out")));
}

TEST_CASE("a raw capture keeps records between events, and is no recording") {
  const Folder folder;
  auto writer = RecordingWriter::make(folder.file("out"), FileKind::raw_capture);
  REQUIRE(writer);
  const std::string records("ab\0cd\r\n", 7);
  (*writer)->consume(PauseBegan{1, 2, 3});
  (*writer)->write_records(std::as_bytes(std::span(records)));
  (*writer)->write_records({});
  (*writer)->consume(RecordingEnded{5});
  REQUIRE((*writer)->finish());
  const auto replayed = replay_of(folder.file("out"), FileKind::raw_capture);
  CHECK_FALSE(replayed.error);
  CHECK(replayed.events.size() == 2);
  CHECK(replayed.records == records);
  CHECK(replay_of(folder.file("out")).error);
  CHECK_FALSE(is_recording(folder.file("out")));
}

TEST_CASE("a recording that cannot be made says why") {
  auto writer = RecordingWriter::make("/nowhere/at/all.gcause", FileKind::recording);
  REQUIRE_FALSE(writer);
  CHECK_THAT(writer.error().what, ContainsSubstring("/nowhere/at/all.gcause"));
  CHECK_THAT(writer.error().what, ContainsSubstring("No such file"));
}

TEST_CASE("a full disk is told at the end, however much was written") {
  const int count = GENERATE(0, 1, 100'000);
  auto writer = RecordingWriter::make("/dev/full", FileKind::recording);
  REQUIRE(writer);
  for (int i = 0; i < count; ++i) (*writer)->consume(WaitBegan{i, 1, 1});
  const auto finished = (*writer)->finish();
  REQUIRE_FALSE(finished);
  CHECK_THAT(finished.error().what, ContainsSubstring("/dev/full"));
  CHECK_THAT(finished.error().what, ContainsSubstring("No space left"));
}

TEST_CASE("what was flushed can be read though the writer has not finished") {
  const Folder folder;
  auto writer = RecordingWriter::make(folder.file("out"), FileKind::recording);
  REQUIRE(writer);
  (*writer)->consume(PauseBegan{1, 2, 3});
  (*writer)->flush();
  CHECK(replay_of(folder.file("out")).events.size() == 1);
}

}  // namespace
}  // namespace gcause
