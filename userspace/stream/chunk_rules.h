// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gcause {

/// What an event is to the timing of a token stream. Only a `chunk` makes a gap; the others are
/// counted.
enum class EventClass : std::uint8_t {
  chunk,        ///< carries model output, or nothing is known that says otherwise
  done_marker,  ///< says that the output is complete, and nothing else
  ping,         ///< keeps the connection alive
  usage_only,   ///< `"choices": []`: token usage, or the verdict of a content filter
  other,        ///< begin, end or state of something, an error, or an event with empty data
};

struct EventRole {
  EventClass kind;
  /// The protocol says that no event with output follows this one.
  bool last = false;
  /// What the event is counted as. A word of gcause's own, never text of the stream: the name that
  /// the protocol gives it, or a word for its class.
  std::string_view name;
};

/// What one event is, from its type (empty if it has none) and its data, which may be cut off at
/// its end. `[DONE]` is known; then the type decides where it is one of a known protocol; then the
/// `type` of the JSON object, and then its shape.
///
/// Known are the events of Anthropic's Messages API and of OpenAI's Responses, Assistants, speech
/// and Mistral's Conversations APIs by name; by shape the chunks of OpenAI's Chat Completions and
/// Completions APIs and of all that are like them (Azure, Mistral, DeepSeek, local servers), of
/// Gemini, and of ollama and llama.cpp. Any other event with data is a chunk.
EventRole role_of_event(std::string_view type, std::string_view data);

/// Longest model name that is believed, in bytes.
inline constexpr std::size_t kMaxModelName = 128;

/// The name of the model in the data of an event: the JSON object's `model` or `modelVersion`, or
/// else the `model` of its `message` or `response` object. Nothing if there is none, or if it is
/// longer than `kMaxModelName` or not printable (control, invisible or direction-changing
/// characters): the name goes to terminals and labels and comes from outside.
std::optional<std::string> model_of(std::string_view data);

}  // namespace gcause
