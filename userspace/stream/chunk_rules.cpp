// SPDX-License-Identifier: Apache-2.0
#include "stream/chunk_rules.h"

#include <algorithm>
#include <array>
#include <cstdint>

#include "stream/event_json.h"

namespace gcause {
namespace {

constexpr std::string_view kDoneMarker = "[DONE]";

/// The name of an event, whether it stands in the `event:` line or in the JSON object.
struct NamedEvent {
  std::string_view name;
  EventClass kind;
  bool last = false;
};

constexpr EventClass kChunk = EventClass::chunk;
constexpr EventClass kOther = EventClass::other;

/// Names of events that are told apart in the counts.
constexpr NamedEvent kNamedEvents[] = {
    // Anthropic, Messages API. Of its deltas (text, thinking, input_json, ...) each is output.
    {"content_block_delta", kChunk},
    {"ping", EventClass::ping},
    {"message_start", kOther},
    {"content_block_start", kOther},
    {"content_block_stop", kOther},
    {"message_delta", kOther},
    {"message_stop", kOther, true},
    {"error", kOther},
    // OpenAI, Responses API.
    {"response.output_text.delta", kChunk},
    {"response.reasoning_text.delta", kChunk},
    {"response.reasoning_summary_text.delta", kChunk},
    {"response.function_call_arguments.delta", kChunk},
    {"response.refusal.delta", kChunk},
    {"response.created", kOther},
    {"response.queued", kOther},
    {"response.in_progress", kOther},
    {"response.output_item.added", kOther},
    {"response.output_item.done", kOther},
    {"response.content_part.added", kOther},
    {"response.content_part.done", kOther},
    {"response.output_text.done", kOther},
    {"response.function_call_arguments.done", kOther},
    {"response.completed", kOther, true},
    {"response.failed", kOther, true},
    {"response.incomplete", kOther, true},
    // OpenAI, Assistants API, which also ends with [DONE].
    {"thread.message.delta", kChunk},
    {"thread.run.completed", kOther},
    // OpenAI, transcription and speech.
    {"transcript.text.delta", kChunk},
    {"transcript.text.done", kOther, true},
    {"speech.audio.delta", kChunk},
    {"speech.audio.done", kOther, true},
    // Mistral, Conversations API.
    {"message.output.delta", kChunk},
    {"conversation.response.done", kOther, true},
    {"conversation.response.error", kOther, true},
};

/// Events whose names begin like this belong to the same protocols: what ends in ".delta" is
/// output, everything else tells of a state.
struct NamedFamily {
  std::string_view prefix;
  std::string_view deltas;
  std::string_view others;
};

constexpr NamedFamily kFamilies[] = {
    {"response.", "response.*.delta", "response.*"},
    {"thread.", "thread.*.delta", "thread.*"},
    {"transcript.", "transcript.*.delta", "transcript.*"},
    {"speech.", "speech.*.delta", "speech.*"},
    {"conversation.", "conversation.*.delta", "conversation.*"},
    {"message.output.", "message.output.*.delta", "message.output.*"},
    {"function.call.", "function.call.*.delta", "function.call.*"},
    {"tool.execution.", "tool.execution.*.delta", "tool.execution.*"},
    {"agent.handoff.", "agent.handoff.*.delta", "agent.handoff.*"},
};

std::string_view word_for(EventClass kind) {
  switch (kind) {
    case EventClass::chunk:
      return "chunk";
    case EventClass::done_marker:
      return "done";
    case EventClass::ping:
      return "ping";
    case EventClass::usage_only:
      return "usage";
    case EventClass::other:
      return "other";
  }
  return {};
}

EventRole plain(EventClass kind, bool last = false) { return {kind, last, word_for(kind)}; }

/// What the name of an event says; nothing for one of no known protocol.
std::optional<EventRole> role_of_name(std::string_view name) {
  for (const NamedEvent& known : kNamedEvents) {
    if (name == known.name) return EventRole{known.kind, known.last, known.name};
  }
  for (const NamedFamily& family : kFamilies) {
    if (!name.starts_with(family.prefix)) continue;
    const bool is_delta = name.ends_with(".delta");
    return EventRole{is_delta ? kChunk : kOther, false, is_delta ? family.deltas : family.others};
  }
  return std::nullopt;
}

bool is_known_name(std::string_view name) { return role_of_name(name).has_value(); }

EventRole role_of_shape(const EventShape& shape) {
  switch (shape.answers) {
    case EventShape::Answers::with_output:
      return plain(kChunk);
    case EventShape::Answers::without_output:
      return plain(kOther);
    case EventShape::Answers::empty:
      return plain(EventClass::usage_only);
    case EventShape::Answers::none:
      break;
  }
  if (shape.done) {
    if (shape.has_text) return plain(kChunk, *shape.done);
    if (*shape.done) return plain(EventClass::done_marker, true);
    return plain(shape.has_text_member ? kOther : kChunk);
  }
  if (shape.has_error) return {kOther, false, "error"};
  return plain(shape.has_usage ? EventClass::usage_only : kChunk);
}

/// The code point at the beginning of `text`, whose length goes to `length`. `text` is well-formed
/// UTF-8: the JSON parser lets nothing else through.
char32_t first_code_point(std::string_view text, std::size_t& length) {
  const auto byte = [&](std::size_t i) { return static_cast<std::uint8_t>(text[i]); };
  const std::uint8_t lead = byte(0);
  length = std::min<std::size_t>(text.size(), lead < 0x80   ? 1
                                              : lead < 0xE0 ? 2
                                              : lead < 0xF0 ? 3
                                                            : 4);
  if (length == 1) return lead;
  char32_t point = lead & (0xFFU >> (length + 1));
  for (std::size_t i = 1; i < length; ++i) point = point << 6 | (byte(i) & 0x3FU);
  return point;
}

bool is_printable(char32_t point) {
  if (point < 0x20 || (point >= 0x7F && point <= 0x9F)) return false;
  if (point == 0xAD || point == 0x61C || point == 0xFEFF) return false;  // invisible
  if (point >= 0x200B && point <= 0x200F) return false;                  // zero width, direction
  if (point >= 0x2028 && point <= 0x202E) return false;                  // separators, direction
  if (point >= 0x2060 && point <= 0x206F) return false;                  // invisible, direction
  if (point >= 0xE000 && point <= 0xF8FF) return false;                  // private use
  if (point >= 0xFFF0 && point <= 0xFFFF) return false;                  // specials
  return point < 0xE0000;                                                // tags, private planes
}

bool is_all_printable(std::string_view text) {
  while (!text.empty()) {
    std::size_t length = 0;
    if (!is_printable(first_code_point(text, length))) return false;
    text.remove_prefix(length);
  }
  return true;
}

}  // namespace

EventRole role_of_event(std::string_view type, std::string_view data) {
  if (data == kDoneMarker) return plain(EventClass::done_marker, true);
  if (const auto role = role_of_name(type)) return *role;
  if (data.empty()) return plain(kOther);
  if (const auto name = type_in(data, is_known_name)) return *role_of_name(*name);
  return role_of_shape(shape_of(data));
}

std::optional<std::string> model_of(std::string_view data) {
  std::optional<std::string> model = model_in(data);
  if (!model || model->empty() || model->size() > kMaxModelName) return std::nullopt;
  if (!is_all_printable(*model)) return std::nullopt;
  return model;
}

}  // namespace gcause
