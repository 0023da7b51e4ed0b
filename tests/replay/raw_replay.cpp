// SPDX-License-Identifier: Apache-2.0
#include "raw_replay.h"

#include "decode/decoder.h"
#include "recording/recording.h"
#include "session/pipeline.h"
#include "util/overloaded.h"

namespace gcause::test {

Result<std::uint64_t> replay_raw_capture(const std::string& path, TimelineConsumer& consumer) {
  Pipeline pipeline(consumer);
  Decoder decoder([&](const Event& event) { pipeline.handle(event); });
  const auto event = [&](const TimelineEvent& timeline_event) {
    std::visit(Overloaded{
                   [&](const Lost& lost) {
                     pipeline.handle(RecordsLost{lost.from, lost.to, lost.where, lost.count});
                   },
                   [&](const ProcessEnded& ended) {
                     pipeline.handle(ProcessExit{ended.at, ended.pid});
                   },
                   [&](const RecordingEnded& ended) {
                     decoder.finish();
                     pipeline.finish(ended.at);
                   },
                   [&](const auto& other) { consumer.consume(other); },
               },
               timeline_event);
  };
  const auto records = [&](std::span<const std::byte> bytes) {
    decoder.feed(bytes);
    decoder.advance();
    // Nobody is there to be told, or to answer: the answers are in the capture.
    pipeline.take_streaming();
    pipeline.take_unread();
  };
  if (auto replayed = replay(path, FileKind::raw_capture, {event, records}); !replayed) {
    return replayed.error();
  }
  return decoder.events();
}

}  // namespace gcause::test
