// SPDX-License-Identifier: Apache-2.0
#include "sink/jsonl.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sink_test_support.h"

namespace gcause {
namespace {

std::string line_of(const Finding& finding) {
  return test::written_by<JsonlSink>({finding}, JsonlOptions{.chunks = true});
}

TEST_CASE("session") {
  const SessionStarted session{"0.1.0",     1'000,    1'700'000'000'000'000'000,
                               100'000'000, "6.18.0", {{"tp_btf", true}, {"fentry", false}}};
  CHECK(line_of(session) ==
        R"({"type":"session","schema":1,"version":"0.1.0","monotonic_ns":1000,)"
        R"("wall_ns":1700000000000000000,"budget_ns":100000000,"kernel":"6.18.0",)"
        R"("features":{"fentry":false,"tp_btf":true}})"
        "\n");
}

TEST_CASE("TLS library that was loaded later") {
  CHECK(line_of(TlsLibraryProbed{9, 42, {"/lib/libssl.so.3", {"SSL_read"}}}) ==
        R"({"type":"tls_library","pid":42,"at_ns":9,)"
        R"("tls":{"object":"/lib/libssl.so.3","functions":["SSL_read"]}})"
        "\n");
}

TEST_CASE("connection whose TLS cannot be read") {
  CHECK(line_of(TlsUnreadFinding{{42, 70, 7, "10.0.0.1:443", 1, 2, 3, 4, 5, 6, 8}, "/x.so"}) ==
        R"({"type":"tls_unread","pid":42,"fd":7,"peer":"10.0.0.1:443","library":"/x.so",)"
        R"("begin_ns":1,"end_ns":2,"records":3,"bytes":4,"longest_silence_ns":5,)"
        R"("longest_unread_ns":6,"stream":8})"
        "\n");
  CHECK(line_of(TlsUnreadFinding{{42, 70, {}, {}, 1, 2, 3, 4, 5, 6, {}}, {}}) ==
        R"({"type":"tls_unread","pid":42,"fd":null,"peer":null,"library":null,)"
        R"("begin_ns":1,"end_ns":2,"records":3,"bytes":4,"longest_silence_ns":5,)"
        R"("longest_unread_ns":6,"stream":null})"
        "\n");
}

TEST_CASE("process") {
  ProcessFollowed process{.pid = 42,
                          .start_ticks = 77,
                          .exe = "/usr/bin/python3.11",
                          .python_version = "3.11.2",
                          .free_threaded = false,
                          .collector_method = CollectorMethod::scan,
                          .collector_object = "/usr/bin/python3.11",
                          .collector_symbol = "gc_collect_main",
                          .collector_address = 0xffffffffffffffffULL,
                          .tls = {{"/lib/libssl.so.3", {"SSL_read", "SSL_write"}}, {"/app/x", {}}},
                          .seen_from = 5};
  SECTION("known") {
    CHECK(line_of(process) ==
          R"({"type":"process","pid":42,"start_ticks":77,"exe":"/usr/bin/python3.11",)"
          R"("python":{"version":"3.11.2","free_threaded":false},)"
          R"("collector":{"method":"scan","object":"/usr/bin/python3.11",)"
          R"("symbol":"gc_collect_main","address":18446744073709551615},"gc":null,)"
          R"("tls":[{"object":"/lib/libssl.so.3","functions":["SSL_read","SSL_write"]},)"
          R"({"object":"/app/x","functions":[]}],"seen_from_ns":5})"
          "\n");
  }
  SECTION("unknown is null, never absent") {
    process.exe.clear();
    process.python_version.reset();
    process.free_threaded.reset();
    process.collector_symbol.clear();
    process.tls.clear();
    CHECK(line_of(process) ==
          R"({"type":"process","pid":42,"start_ticks":77,"exe":null,)"
          R"("python":{"version":null,"free_threaded":null},)"
          R"("collector":{"method":"scan","object":"/usr/bin/python3.11","symbol":null,)"
          R"("address":18446744073709551615},"gc":null,"tls":[],"seen_from_ns":5})"
          "\n");
  }
}

TEST_CASE("settings of the collector") {
  ProcessFollowed process{.pid = 42,
                          .start_ticks = 77,
                          .exe = "/python",
                          .python_version = {},
                          .free_threaded = {},
                          .collector_method = CollectorMethod::usdt,
                          .collector_object = "/python",
                          .collector_symbol = {},
                          .collector_address = 0,
                          .tls = {},
                          .seen_from = 5,
                          .gc = CollectorSettings{true, {700, 10, 10}, {1, 2, 3}, 0}};
  CHECK(line_of(process).find(R"("gc":{"enabled":true,"thresholds":[700,10,10],)"
                              R"("counts":[1,2,3],"frozen":0},"tls")") != std::string::npos);
  process.gc = CollectorSettings{};
  CHECK(line_of(process).find(R"("gc":{"enabled":null,"thresholds":null,"counts":null,)"
                              R"("frozen":null},"tls")") != std::string::npos);
  CHECK(line_of(SettingsChanged{99, 42, 1, {false, {2000, 5, 0}, {7, 0, 0}, 12'345}}) ==
        R"({"type":"settings","pid":42,"interpreter":1,"at_ns":99,"enabled":false,)"
        R"("thresholds":[2000,5,0],"counts":[7,0,0],"frozen":12345})"
        "\n");
}

TEST_CASE("pause") {
  PauseEnded pause{.id = 17,
                   .pid = 42,
                   .tid = 43,
                   .interpreter = 0,
                   .kind = PauseKind::gc,
                   .generation = 2,
                   .reason = PauseReason::automatic,
                   .begin = 100,
                   .end = 350,
                   .cpu = 249,
                   .collected = 12'000};
  CHECK(line_of(PauseFinding{pause}) ==
        R"({"type":"pause","id":17,"pid":42,"tid":43,"interpreter":0,"kind":"gc","generation":2,)"
        R"("reason":"automatic","begin_ns":100,"end_ns":350,"duration_ns":250,"cpu_ns":249,)"
        R"("collected":12000,"uncollectable":null,"trigger":null,"world_stops":[]})"
        "\n");

  pause.kind = PauseKind::stop_the_world;
  pause.interpreter.reset();
  pause.generation.reset();
  pause.reason.reset();
  pause.cpu.reset();
  pause.collected.reset();
  CHECK(line_of(PauseFinding{pause}) ==
        R"({"type":"pause","id":17,"pid":42,"tid":43,"interpreter":null,"kind":"stop-the-world",)"
        R"("generation":null,"reason":null,"begin_ns":100,"end_ns":350,"duration_ns":250,)"
        R"("cpu_ns":null,"collected":null,"uncollectable":null,"trigger":null,"world_stops":[]})"
        "\n");
}

TEST_CASE("stream") {
  StreamFinding stream{
      .began = {.id = 3,
                .pid = 42,
                .direction = StreamDirection::read,
                .peer = "10.0.0.1:443",
                .host = "api.example.com",
                .tls = true,
                .protocol = StreamProtocol::h2,
                .begin = 10,
                .request_end = 5,
                .format = StreamFormat::ndjson,
                .content_type = "application/x-ndjson",
                .content_coding = "gzip, br"},
      .ended = {.id = 3,
                .pid = 42,
                .at = 99,
                .end = StreamEnd::done,
                .model = "m-1",
                .comments = 2,
                .bytes = 4'096,
                .body =
                    BodySeen{{{"chunk", 12}, {"done", 1}}, 1, 9, 20, 95, 31, Undecoded::too_large}},
      .first_chunk = FirstChunk{20, 11, 7, 2, 13},
      .chunks = 12};
  CHECK(line_of(stream) ==
        R"({"type":"stream","id":3,"pid":42,"direction":"read","peer":"10.0.0.1:443",)"
        R"("host":"api.example.com","model":"m-1","tls":true,"protocol":"h2","begin_ns":10,)"
        R"("first_chunk_ns":20,"first_chunk_upstream_ns":11,"first_chunk_charged_ns":7,)"
        R"("first_chunk_process_ns":2,"first_chunk_but_for_ns":13,)"
        R"("end_ns":99,"chunks":12,"comments":2,"bytes":4096,"end":"done","cut_ns":null,)"
        R"("cut_in_pause":null,"format":"ndjson",)"
        R"("content_type":"application/x-ndjson","content_coding":"gzip, br",)"
        R"("events":{"chunk":12,"done":1},"truncated_events":1,"reads":9,"first_read_ns":20,)"
        R"("last_read_ns":95,"longest_silence_ns":31,"undecoded":"too-large"})"
        "\n");

  stream.began.direction = StreamDirection::write;
  stream.began.protocol = StreamProtocol::tls_records;
  stream.began.peer.reset();
  stream.began.host.reset();
  stream.ended.model.reset();
  stream.ended.end = StreamEnd::truncated;
  stream.ended.cut = 98;
  stream.cut_in_pause = 17;
  stream.first_chunk.reset();
  stream.began.format = StreamFormat::sse;
  stream.began.content_type.clear();
  stream.began.content_coding.clear();
  stream.ended.body.reset();
  CHECK(line_of(stream) ==
        R"({"type":"stream","id":3,"pid":42,"direction":"write","peer":null,"host":null,)"
        R"("model":null,"tls":true,"protocol":"tls-records","begin_ns":10,"first_chunk_ns":null,)"
        R"("first_chunk_upstream_ns":null,"first_chunk_charged_ns":null,)"
        R"("first_chunk_process_ns":null,"first_chunk_but_for_ns":null,)"
        R"("end_ns":99,"chunks":12,"comments":2,"bytes":4096,"end":"truncated","cut_ns":98,)"
        R"("cut_in_pause":17,"format":"sse",)"
        R"("content_type":null,"content_coding":null,"events":null,"truncated_events":null,)"
        R"("reads":null,"first_read_ns":null,"last_read_ns":null,"longest_silence_ns":null,)"
        R"("undecoded":null})"
        "\n");
}

TEST_CASE("unread") {
  StreamUnread stream{42,
                      StreamDirection::read,
                      "10.0.0.1:443",
                      "api.example.com",
                      true,
                      StreamProtocol::http1,
                      UnreadFormat::json_array,
                      "application/json",
                      10,
                      99,
                      12,
                      4'096};
  CHECK(line_of(stream) ==
        R"({"type":"unread","pid":42,"direction":"read","peer":"10.0.0.1:443",)"
        R"("host":"api.example.com","tls":true,"protocol":"http/1.1","format":"json-array",)"
        R"("content_type":"application/json","begin_ns":10,"end_ns":99,"reads":12,"bytes":4096})"
        "\n");
  stream.peer.reset();
  stream.host.reset();
  stream.format = UnreadFormat::websocket;
  stream.content_type.clear();
  CHECK(line_of(stream) ==
        R"({"type":"unread","pid":42,"direction":"read","peer":null,"host":null,"tls":true,)"
        R"("protocol":"http/1.1","format":"websocket","content_type":null,"begin_ns":10,)"
        R"("end_ns":99,"reads":12,"bytes":4096})"
        "\n");
}

TEST_CASE("chunk") {
  ChunkFinding chunk{
      .chunk =
          {.stream = 3, .index = 4, .pid = 42, .tid = 43, .bytes = 200, .read = 50, .arrival = 40},
      .delivery = 60,
      .held = 0};
  CHECK(line_of(chunk) ==
        R"({"type":"chunk","stream":3,"index":4,"pid":42,"tid":43,"bytes":200,"arrival_ns":40,)"
        R"("read_ns":50,"delivery_ns":60,"held_ns":0,"source":null,"since_source_ns":null})"
        "\n");
  chunk.chunk.arrival.reset();
  chunk.held.reset();
  chunk.chunk.source = ChunkPlace{5, 6};
  chunk.since_source = 8;
  CHECK(line_of(chunk) ==
        R"({"type":"chunk","stream":3,"index":4,"pid":42,"tid":43,"bytes":200,"arrival_ns":null,)"
        R"("read_ns":50,"delivery_ns":60,"held_ns":null,"source":{"stream":5,)"
        R"("index":6},"since_source_ns":8})"
        "\n");
}

TEST_CASE("gap") {
  GapFinding gap;
  gap.stream = 3;
  gap.index = 4;
  gap.pid = 42;
  gap.tid = 43;
  gap.from = 100;
  gap.to = 500;
  gap.gap = 400;
  gap.upstream = 50;
  gap.charged = 300;
  gap.process = 50;
  gap.cpu_wait = 7;
  gap.lock_wait = 8;
  gap.but_for = 100;
  gap.held = 9;
  gap.over_budget = true;
  gap.verdict = Verdict::gc_partial;
  gap.basis = Basis::arrival;
  gap.pauses = {{17, 200}, {18, 100}};
  gap.exonerated = {19, 20};
  gap.burst = 5;
  CHECK(line_of(gap) ==
        R"({"type":"gap","stream":3,"index":4,"pid":42,"from_ns":100,"to_ns":500,"gap_ns":400,)"
        R"("upstream_ns":50,"charged_ns":300,"process_ns":50,"cpu_wait_ns":7,"lock_wait_ns":8,)"
        R"("but_for_ns":100,"held_ns":9,"over_budget":true,"verdict":"gc-partial",)"
        R"("basis":"arrival",)"
        R"("pauses":[{"id":17,"charged_ns":200},{"id":18,"charged_ns":100}],)"
        R"("exonerated":[19,20],"burst":5})"
        "\n");
  CHECK(line_of(GapFinding{}) ==
        R"({"type":"gap","stream":0,"index":0,"pid":0,"from_ns":0,"to_ns":0,"gap_ns":0,)"
        R"("upstream_ns":0,"charged_ns":0,"process_ns":0,"cpu_wait_ns":null,"lock_wait_ns":null,)"
        R"("but_for_ns":0,"held_ns":null,"over_budget":false,"verdict":null,"basis":"overlap",)"
        R"("pauses":[],"exonerated":[],"burst":1})"
        "\n");
}

TEST_CASE("lost") {
  CHECK(line_of(Lost{42, "ring", 3, 10, 20}) ==
        R"({"type":"lost","pid":42,"where":"ring","count":3,"from_ns":10,"to_ns":20})"
        "\n");
  CHECK(line_of(Lost{std::nullopt, "ring", 3, 10, 20}) ==
        R"({"type":"lost","pid":null,"where":"ring","count":3,"from_ns":10,"to_ns":20})"
        "\n");
}

TEST_CASE("window") {
  WindowFinding window;
  window.pid = 42;
  window.from = 5;
  window.to = 60'000'000'005;
  CHECK(line_of(window) ==
        R"({"type":"window","pid":42,"window_ns":60000000000,"from_ns":5,"to_ns":60000000005,)"
        R"("gaps":0,"p99_ns":null,"but_for_p99_ns":null,"budget_kept":null,)"
        R"("but_for_kept":null,"direction":"read"})"
        "\n");
  window.gaps = 100;
  window.p99 = 200;
  window.but_for_p99 = 90;
  window.budget_kept = false;
  window.but_for_kept = true;
  window.changed = true;
  window.direction = StreamDirection::write;
  CHECK(line_of(window) ==
        R"({"type":"window","pid":42,"window_ns":60000000000,"from_ns":5,"to_ns":60000000005,)"
        R"("gaps":100,"p99_ns":200,"but_for_p99_ns":90,"budget_kept":false,)"
        R"("but_for_kept":true,"direction":"write"})"
        "\n");
}

TEST_CASE("summary") {
  SummaryFinding summary;
  summary.pid = 42;
  SECTION("of nothing") {
    const std::string empty =
        R"({"count":0,"p50_ns":null,"p90_ns":null,"p99_ns":null,"max_ns":null})";
    CHECK(line_of(summary) ==
          R"({"type":"summary","pid":42,"pauses":{"count":0,"total_ns":0,"max_ns":null,)"
          R"("p50_ns":null,"p99_ns":null,"by_generation":{}},"streams":0,"chunks":0,"gap":)" +
              empty + R"(,"but_for":)" + empty + R"(,"first_chunk":)" + empty +
              R"(,"first_chunk_but_for":)" + empty +
              R"(,"verdicts":{"gc":0,"gc-partial":0,"upstream":0,"process":0},"over_budget":0,)"
              R"("budget_kept":true,"but_for_kept":true,"unjudged":0,"unjudged_share":null,)"
              R"("gaps_with_loss":0,"lost":0,"tls_unread":0,"windows":[],"by_direction":{}})"
              "\n");
  }
  SECTION("of a recording") {
    summary.pauses = {3, 60, 30, 20, 30};
    summary.by_generation[std::nullopt] = {1, 10, 10, 10, 10};
    summary.by_generation[0] = {1, 20, 20, 20, 20};
    summary.by_generation[2] = {1, 30, 30, 30, 30};
    summary.streams = 2;
    summary.chunks = 9;
    summary.gap = {7, 1, 2, 3, 4};
    summary.but_for = {7, 1, 1, 1, 2};
    summary.first_chunk = {2, 5, 6, 6, 6};
    summary.first_chunk_but_for = {2, 3, 4, 4, 4};
    summary.verdicts[Verdict::gc] = 2;
    summary.over_budget = 3;
    summary.unjudged = 1;
    summary.budget_kept = false;
    summary.gaps_with_loss = 5;
    summary.lost = 8;
    summary.tls_unread = 2;
    WindowFinding worst;
    worst.from = 10;
    worst.to = 20;
    worst.p99 = 7;
    worst.but_for_p99 = 6;
    summary.windows = {{60 * kSecond, 9, 2, 3, 1, worst},
                       {std::nullopt, 1, 1, 0, 0, {}, StreamDirection::write}};
    auto& written = summary.by_direction[StreamDirection::write];
    written.streams = 1;
    written.chunks = 4;
    written.gap = {3, 1, 2, 3, 4};
    written.but_for = {3, 1, 1, 1, 2};
    written.verdicts[Verdict::gc] = 1;
    written.over_budget = 1;
    written.since_source = {4, 7, 8, 9, 9};
    const std::string none =
        R"({"count":0,"p50_ns":null,"p90_ns":null,"p99_ns":null,"max_ns":null})";
    CHECK(
        line_of(summary) ==
        R"({"type":"summary","pid":42,"pauses":{"count":3,"total_ns":60,"max_ns":30,)"
        R"("p50_ns":20,"p99_ns":30,"by_generation":{)"
        R"("unknown":{"count":1,"total_ns":10,"max_ns":10,"p50_ns":10,"p99_ns":10},)"
        R"("0":{"count":1,"total_ns":20,"max_ns":20,"p50_ns":20,"p99_ns":20},)"
        R"("2":{"count":1,"total_ns":30,"max_ns":30,"p50_ns":30,"p99_ns":30}}},)"
        R"("streams":2,"chunks":9,)"
        R"("gap":{"count":7,"p50_ns":1,"p90_ns":2,"p99_ns":3,"max_ns":4},)"
        R"("but_for":{"count":7,"p50_ns":1,"p90_ns":1,"p99_ns":1,"max_ns":2},)"
        R"("first_chunk":{"count":2,"p50_ns":5,"p90_ns":6,"p99_ns":6,"max_ns":6},)"
        R"("first_chunk_but_for":{"count":2,"p50_ns":3,"p90_ns":4,"p99_ns":4,"max_ns":4},)"
        R"("verdicts":{"gc":2,"gc-partial":0,"upstream":0,"process":0},"over_budget":3,)"
        R"("budget_kept":false,"but_for_kept":true,"unjudged":1,"unjudged_share":0.250000,)"
        R"("gaps_with_loss":5,"lost":8,"tls_unread":2,"windows":[{"window_ns":60000000000,"count":9,"few_gaps":2,)"
        R"("broken":3,"broken_by_collector":1,"worst":{"from_ns":10,"to_ns":20,"p99_ns":7,)"
        R"("but_for_p99_ns":6},"direction":"read"},)"
        R"({"window_ns":null,"count":1,"few_gaps":1,"broken":0,)"
        R"("broken_by_collector":0,"worst":null,"direction":"write"}],)"
        R"("by_direction":{"write":{"streams":1,"chunks":4,)"
        R"("gap":{"count":3,"p50_ns":1,"p90_ns":2,"p99_ns":3,"max_ns":4},)"
        R"("but_for":{"count":3,"p50_ns":1,"p90_ns":1,"p99_ns":1,"max_ns":2},)"
        R"("first_chunk":)" +
            none + R"(,"first_chunk_but_for":)" + none +
            R"(,"verdicts":{"gc":1,"gc-partial":0,"upstream":0,"process":0},"over_budget":1,)"
            R"("budget_kept":true,"but_for_kept":true,"unjudged":0,"unjudged_share":0.000000,)"
            R"("gaps_with_loss":0,)"
            R"("since_source":{"count":4,"p50_ns":7,"p90_ns":8,"p99_ns":9,"max_ns":9}}}})"
            "\n");
  }
}

TEST_CASE("chunks, gaps within the budget and windows as before are written only when asked for") {
  GapFinding within;
  GapFinding above;
  above.over_budget = true;
  WindowFinding same;
  WindowFinding other;
  other.changed = true;
  const std::vector<Finding> findings{ChunkFinding{}, within, above, same, other};
  const auto lines = [&](bool chunks) {
    const std::string text = test::written_by<JsonlSink>(findings, JsonlOptions{.chunks = chunks});
    return std::count(text.begin(), text.end(), '\n');
  };
  CHECK(lines(false) == 2);
  CHECK(lines(true) == 5);
}

TEST_CASE("text of the target is escaped and cannot break a line or throw") {
  StreamFinding stream{.began = {}, .ended = {}, .first_chunk = {}, .chunks = 0};
  stream.began.host = "a\"b\\c\nd\x01\xff\xc3(\xe2\x82" + std::string(1, '\0') + "\xc3\xa9";
  stream.ended.model = "\xed\xa0\x80";
  const std::string text = line_of(stream);
  CHECK(std::count(text.begin(), text.end(), '\n') == 1);
  const auto parsed = nlohmann::json::parse(text);
  CHECK(parsed["host"].get<std::string>() ==
        "a\"b\\c\nd\x01\xef\xbf\xbd\xef\xbf\xbd(\xef\xbf\xbd" + std::string(1, '\0') + "\xc3\xa9");
}

TEST_CASE("milestones are seen at once, the rest when told") {
  const test::TempFolder folder;
  const std::string path = folder.file("out");
  auto output = Output::open(path);
  REQUIRE(output);
  JsonlSink sink(*std::move(output), {});
  sink.write(Lost{});
  CHECK(test::read_file(path).empty());
  sink.write(SummaryFinding{});
  const auto after_summary = test::read_file(path).size();
  CHECK(after_summary > 0);
  sink.write(Lost{});
  CHECK(test::read_file(path).size() == after_summary);
  sink.flush();
  CHECK(test::read_file(path).size() > after_summary);
  CHECK(sink.finish());
}

TEST_CASE("a full disk is told by the sink's finish") {
  auto output = Output::open("/dev/full");
  if (!output) SKIP("no /dev/full");
  JsonlSink sink(*std::move(output), {});
  sink.write(SummaryFinding{});
  CHECK(sink.failed());
  CHECK_FALSE(sink.finish());
}

}  // namespace
}  // namespace gcause
