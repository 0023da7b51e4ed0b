// SPDX-License-Identifier: Apache-2.0
#include "stream/http2_detector.h"

#include <algorithm>
#include <vector>

namespace gcause {

bool Http2Detector::sees(StreamDirection direction, std::span<const std::byte> bytes) {
  Way& way = of(direction);
  std::vector<std::byte> joined;
  std::span<const std::byte> all = bytes;
  if (way.size > 0) {
    joined.assign(way.held.begin(), way.held.begin() + way.size);
    joined.insert(joined.end(), bytes.begin(), bytes.end());
    all = joined;
  }
  switch (guess_http2(all)) {
    case Http2Guess::yes:
      return true;
    case Http2Guess::more:
      std::ranges::copy(all, way.held.begin());
      way.size = static_cast<std::uint8_t>(all.size());
      return false;
    case Http2Guess::no:
      if (!all.empty()) way = {{}, 0, true};
      return false;
  }
  return false;
}

}  // namespace gcause
