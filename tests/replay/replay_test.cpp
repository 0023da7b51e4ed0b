// SPDX-License-Identifier: Apache-2.0
// Each raw capture in data/ has a golden file beside it: what a live run said then, the pipeline says
// again. To add a case, add a capture (gcause record --raw-capture) and run once with
// GCAUSE_UPDATE_GOLDEN=1.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>

#include "raw_replay.h"
#include "session/outputs.h"

namespace gcause {
namespace {

std::string read_all(const std::filesystem::path& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

std::string replayed(const std::filesystem::path& capture) {
  const auto out = std::filesystem::temp_directory_path() /
                   (capture.stem().string() + "." + std::to_string(::getpid()) + ".jsonl");
  auto outputs = Outputs::make({{Format::jsonl, out.string()}}, true, std::nullopt);
  REQUIRE(outputs);
  auto records = test::replay_raw_capture(capture.string(), **outputs);
  REQUIRE(records);
  CHECK(*records > 0);
  REQUIRE((*outputs)->finish());
  auto text = read_all(out);
  std::filesystem::remove(out);
  return text;
}

}  // namespace

TEST_CASE("a raw capture replays to its golden JSON lines") {
  std::size_t captures = 0;
  for (const auto& entry : std::filesystem::directory_iterator(GCAUSE_TEST_DATA)) {
    if (entry.path().extension() != ".gcraw") continue;
    ++captures;
    INFO(entry.path().filename().string());
    auto golden = entry.path();
    golden.replace_extension(".jsonl");
    const auto text = replayed(entry.path());
    if (std::getenv("GCAUSE_UPDATE_GOLDEN")) {
      std::ofstream(golden, std::ios::binary) << text;
    }
    CHECK(text == read_all(golden));
  }
  CHECK(captures >= 4);
}

TEST_CASE("a recording of a replayed capture reports the same again") {
  const auto capture = std::filesystem::path(GCAUSE_TEST_DATA) / "asyncio_tls_guilty.gcraw";
  const auto folder = std::filesystem::temp_directory_path() / ("gcause." + std::to_string(::getpid()));
  std::filesystem::create_directory(folder);
  const auto recording = folder / "again.gcause", lines = folder / "again.jsonl";
  auto recorded = Outputs::make({{Format::recording, recording.string()}}, true, std::nullopt);
  REQUIRE(recorded);
  REQUIRE(test::replay_raw_capture(capture.string(), **recorded));
  REQUIRE((*recorded)->finish());
  auto reported = Outputs::make({{Format::jsonl, lines.string()}}, true, std::nullopt);
  REQUIRE(reported);
  REQUIRE(replay(recording.string(), FileKind::recording,
                 {[&](const TimelineEvent& event) { (*reported)->consume(event); }, {}}));
  REQUIRE((*reported)->finish());
  const bool same = read_all(lines) == replayed(capture);
  CHECK(same);
  std::filesystem::remove_all(folder);
}

}  // namespace gcause
