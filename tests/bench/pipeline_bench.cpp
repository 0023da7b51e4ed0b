// SPDX-License-Identifier: Apache-2.0
// Records per second of the replayed pipeline on one core: a raw capture through decode, streams,
// pauses, attribution and JSON lines, again and again for some seconds. Prints one JSON object.
#include <chrono>
#include <cstdio>
#include <cstdlib>

#include "raw_replay.h"
#include "session/outputs.h"

int main(int argc, char** argv) {
  if (argc != 3) {
    std::fprintf(stderr, "usage: pipeline_bench CAPTURE SECONDS\n");
    return 2;
  }
  using Clock = std::chrono::steady_clock;
  const auto limit = std::chrono::duration<double>(std::atof(argv[2]));
  std::uint64_t records = 0, rounds = 0;
  const auto begin = Clock::now();
  while (Clock::now() - begin < limit) {
    auto outputs = gcause::Outputs::make({{gcause::Format::jsonl, "/dev/null"}}, false, std::nullopt);
    if (!outputs) return 1;
    auto replayed = gcause::test::replay_raw_capture(argv[1], **outputs);
    if (!replayed) {
      std::fprintf(stderr, "%s\n", replayed.error().what.c_str());
      return 1;
    }
    if (!(*outputs)->finish()) return 1;
    records += *replayed;
    ++rounds;
  }
  const std::chrono::duration<double> took = Clock::now() - begin;
  std::printf("{\"records\": %llu, \"rounds\": %llu, \"records_per_s\": %.0f}\n",
              static_cast<unsigned long long>(records), static_cast<unsigned long long>(rounds),
              static_cast<double>(records) / took.count());
  return 0;
}
