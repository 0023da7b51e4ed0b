// SPDX-License-Identifier: Apache-2.0
#include "stream/unread_stream.h"

#include <utility>

namespace gcause {

UnreadStream::UnreadStream(TimelineConsumer& timeline, StreamUnread told)
    : timeline_(timeline), told_(std::move(told)) {
  told_.reads = told_.bytes = 0;
}

void UnreadStream::feed(std::span<const std::byte> bytes, Ns at) {
  if (read_at_ != at) {
    end_read();
    ++told_.reads;
    read_at_ = at;
  }
  told_.bytes += bytes.size();
  if (told_.format == UnreadFormat::json_array && single_elements_ < kSingleElements) {
    array_.feed(bytes);
  }
}

/// The read before is over: did whole elements come with it?
void UnreadStream::end_read() {
  if (array_.between_elements() && array_.elements() > elements_) ++single_elements_;
  elements_ = array_.elements();
}

void UnreadStream::skip(std::uint64_t count) {
  told_.bytes += count;
  array_.lose();
}

void UnreadStream::end(Ns at) {
  end_read();
  if (told_.format == UnreadFormat::json_array && single_elements_ < kSingleElements) return;
  told_.end = at;
  timeline_.consume(told_);
}

}  // namespace gcause
