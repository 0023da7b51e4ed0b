// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace gcause {

// Looks at the JSON object in the data of one event, which is hostile, may be long, and may be cut
// off at its end. Nothing is built: members are looked for as text first, and the object is parsed
// (SAX) only if one that matters may be there, up to the place where the answer is known. Text that
// begins with no brace holds no object.

bool looks_like_object(std::string_view data);

/// The `type` of the object, if it is one for which `matters` holds.
std::optional<std::string> type_in(std::string_view data, bool (*matters)(std::string_view type));

/// The name of the model as it stands there: `model`, else `modelVersion` (Gemini), else the
/// `model` of the object's `message` or `response`. Well-formed UTF-8, but otherwise whatever the
/// target likes.
std::optional<std::string> model_in(std::string_view data);

/// What an object without a telling `type` says of output of a model.
struct EventShape {
  /// A list of answers, `choices` (OpenAI and those that are like it) or `candidates` (Gemini).
  enum class Answers {
    none,            ///< there is no such list, or it is not what either of them is
    empty,           ///< it has no elements
    without_output,  ///< roles, reasons to finish, verdicts of filters
    with_output,     ///< text, reasoning, calls of tools, or anything else that was made
  };

  Answers answers = Answers::none;
  /// `done` (ollama) or `stop` (llama.cpp), where it is a bool.
  std::optional<bool> done;
  bool has_text_member = false;  ///< beside `done`: a member that would hold output
  bool has_text = false;         ///< and it does
  bool has_error = false;        ///< `error` is something
  bool has_usage = false;        ///< `usageMetadata` or `promptFeedback` (Gemini)
};

EventShape shape_of(std::string_view data);

}  // namespace gcause
