// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

namespace gcause {

/// What an SSE event is to the timing of a token stream. Only a `chunk` makes a gap; the others are
/// counted.
enum class EventClass {
  chunk,        ///< carries model output, or nothing is known that says otherwise
  done_marker,  ///< `[DONE]`
  ping,         ///< keeps the connection alive
  usage_only,   ///< `"choices": []`: token usage, or the verdict of a content filter
  other,        ///< begin, end or state of something, or an event with empty data
};

/// Classifies one event from its type (empty if it had no `event:` line) and its data, which may
/// be cut off at its end. The type decides where it is one of a known protocol; otherwise the
/// `type` of the JSON object does, then its `choices`. Known are the event names of Anthropic's
/// Messages API and of OpenAI's Responses API, and the chunks of OpenAI's Chat Completions API.
/// An ordinary chunk costs two substring searches and no JSON parsing.
EventClass classify_event(std::string_view type, std::string_view data);

/// Whether the protocol says that no event with model output follows this one: `[DONE]`,
/// `message_stop`, `response.completed`, `response.failed` or `response.incomplete`. Such an event
/// is never of class `chunk`, so a caller that knows the class need not ask for chunks.
bool ends_stream(std::string_view type, std::string_view data);

/// Longest model name that is believed, in bytes.
inline constexpr std::size_t kMaxModelName = 128;

/// The name of the model in the data of an event: the JSON object's `model`, or else the `model` of
/// its `message` or `response` object. Nothing if there is none, or if it is longer than
/// `kMaxModelName` or not printable (control, invisible or direction-changing characters): the name
/// goes to terminals and labels and comes from outside.
std::optional<std::string> model_of(std::string_view data);

}  // namespace gcause
