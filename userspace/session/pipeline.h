// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <vector>

#include "decode/event.h"
#include "pause/pause_tracker.h"
#include "recording/timeline.h"
#include "stream/stream_tracker.h"

namespace gcause {

/// From events to the timeline: the part that a live run shares with the replay of a raw capture.
class Pipeline {
 public:
  explicit Pipeline(TimelineConsumer& timeline)
      : timeline_(timeline), streams_(timeline), pauses_(timeline) {}

  /// Events come in the order of time. A process that ends closes its streams.
  void handle(const Event& event);

  /// Connections that began or ceased to carry a stream; a live run tells the kernel side.
  std::vector<StreamTracker::Streaming> take_streaming() { return streams_.take_streaming(); }

  /// Connections whose TLS nobody reads; a live run finds out whose code uses them.
  std::vector<StreamTracker::UnreadSocket> take_unread() { return streams_.take_unread(); }

  /// The recording is over.
  void finish(Ns at);

 private:
  void end_process(std::uint32_t pid, Ns at);

  TimelineConsumer& timeline_;
  StreamTracker streams_;
  PauseTracker pauses_;
};

}  // namespace gcause
