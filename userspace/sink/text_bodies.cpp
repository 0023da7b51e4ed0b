// SPDX-License-Identifier: Apache-2.0
#include "sink/text_bodies.h"

#include <algorithm>

#include "sink/names.h"
#include "sink/text_layout.h"

namespace gcause {
namespace {

/// Kinds that have a line of their own; the target could make up any number of them.
constexpr std::size_t kMaxKinds = 16;
constexpr std::size_t kShown = 40;  // characters of a text of the target

using Kinds = std::map<std::string, UnreadBodies>;

UnreadBodies& kind(Kinds& kinds, const std::string& name) {
  const auto found = kinds.find(name);
  if (found != kinds.end()) return found->second;
  return kinds[kinds.size() < kMaxKinds ? name : "of other kinds"];
}

}  // namespace

void add_body(BodyTotals& totals, const StreamFinding& stream) {
  const auto& body = stream.ended.body;
  if (!body) return;
  totals.calls[stream.began.direction] += body->reads;
  if (!body->undecoded) return;
  UnreadBodies& bodies = kind(totals.undecoded, printable(stream.began.content_coding, kShown) +
                                                    ", " + std::string(name_of(*body->undecoded)));
  ++bodies.count;
  bodies.reads += body->reads;
  bodies.longest_silence = std::max(bodies.longest_silence, body->longest_silence);
}

void add_body(BodyTotals& totals, const StreamUnread& stream) {
  std::string name(name_of(stream.format));
  if (!stream.content_type.empty()) name += ", " + printable(stream.content_type, kShown);
  UnreadBodies& bodies = kind(totals.unread, name);
  ++bodies.count;
  bodies.reads += stream.reads;
}

std::string in_calls(const BodyTotals& totals, StreamDirection direction) {
  const auto calls = totals.calls.find(direction);
  if (calls == totals.calls.end()) return "";
  const bool is_read = direction == StreamDirection::read;
  return " in " + counted(calls->second, is_read ? "read" : "write", is_read ? "reads" : "writes");
}

std::string unread_bodies(const BodyTotals& totals, std::size_t width) {
  std::string out;
  for (const auto& [name, bodies] : totals.undecoded) {
    out += wrap(counted(bodies.count, "stream", "streams") + " (" + name + "), " +
                    counted(bodies.reads, "read", "reads") + ", longest silence " +
                    format_duration(bodies.longest_silence),
                width, "  encoded, not decoded: ");
  }
  for (const auto& [name, bodies] : totals.unread) {
    out += wrap(counted(bodies.count, "response", "responses") + " (" + name + "), " +
                    counted(bodies.reads, "read", "reads"),
                width, "  streaming, but no event stream: ");
  }
  return out;
}

}  // namespace gcause
