// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

namespace gcause::test {

/// One dispatched event.
struct Seen {
  std::string type;
  std::string data;
  std::size_t end = 0;  // in the whole stream
  std::uint64_t bytes = 0;
  bool truncated = false;
  bool operator==(const Seen&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Seen& seen) {
  return out << "{" << seen.type << "|" << seen.data << "|" << seen.end << "|" << seen.bytes << "|"
             << seen.truncated << "}";
}

struct Outcome {
  std::vector<Seen> events;
  std::uint64_t comments = 0;
  bool operator==(const Outcome&) const = default;
};

/// "Parsing an event stream" and "Interpreting an event stream" of the WHATWG HTML standard (9.2.5,
/// 9.2.6), line by line, on the whole stream at once: slow and plain. Of the data of an event `limit`
/// bytes are kept.
inline Outcome sse_reference(const std::string& stream, std::size_t limit) {
  Outcome result;
  std::string type;
  std::string data;  // every data line is followed by a LF here, as in the standard
  std::size_t block_begin = 0;
  std::size_t at = stream.compare(0, 3, "\xEF\xBB\xBF") == 0 ? 3 : 0;
  while (true) {
    std::string line;
    while (at < stream.size() && stream[at] != '\r' && stream[at] != '\n') line += stream[at++];
    if (at == stream.size()) return result;  // no line end: discarded
    const std::size_t behind = at + 1;
    at = behind;
    if (stream[behind - 1] == '\r' && at < stream.size() && stream[at] == '\n') ++at;
    if (line.empty()) {
      if (!data.empty()) {
        data.pop_back();
        result.events.push_back(
            {type, data.substr(0, limit), behind, behind - block_begin, data.size() > limit});
      }
      data.clear();
      type.clear();
      block_begin = at;
      continue;
    }
    if (line[0] == ':') {
      ++result.comments;
      continue;
    }
    const std::size_t colon = line.find(':');
    const std::string name = line.substr(0, colon);
    std::string value = colon == std::string::npos ? "" : line.substr(colon + 1);
    if (!value.empty() && value[0] == ' ') value.erase(0, 1);
    if (name == "data") data += value + "\n";
    if (name == "event") type = value;
  }
}

}  // namespace gcause::test
