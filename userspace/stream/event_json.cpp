// SPDX-License-Identifier: Apache-2.0
#include "stream/event_json.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

namespace gcause {
namespace {

constexpr bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view without_leading_space(std::string_view text) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  return text;
}

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  return std::ranges::find(names, name) != names.end();
}

/// A quoted JSON key and the place of a letter in it that is rare in JSON and in prose. Searching
/// for that letter stops far less often than for the quotation mark.
struct QuotedKey {
  std::string_view text;
  std::size_t rare;
};

constexpr QuotedKey kTypeKey = {"\"type\"", 2};
constexpr std::array<QuotedKey, 2> kModelKeys = {{{"\"model\"", 1}, {"\"modelVersion\"", 6}}};
/// Without any of these an object has no shape that is known.
constexpr std::array<QuotedKey, 7> kShapeKeys = {{{"\"choices\"", 2},
                                                  {"\"candidates\"", 4},
                                                  {"\"done\"", 1},
                                                  {"\"stop\"", 4},
                                                  {"\"error\"", 2},
                                                  {"\"usageMetadata\"", 6},
                                                  {"\"promptFeedback\"", 7}}};

/// Calls `accept` with the text behind the colon of every place where `key` may be a member's key,
/// wherever in the document, until it returns true. A key written with escapes is not found; no
/// server writes one.
template <typename Accept>
bool any_value_of(std::string_view data, const QuotedKey& key, Accept accept) {
  std::size_t at = key.rare;
  while (at < data.size()) {
    const void* hit = std::memchr(data.data() + at, key.text[key.rare], data.size() - at);
    if (hit == nullptr) return false;
    at = static_cast<std::size_t>(static_cast<const char*>(hit) - data.data());
    std::string_view rest = data.substr(at - key.rare);
    ++at;
    if (!rest.starts_with(key.text)) continue;
    rest = without_leading_space(rest.substr(key.text.size()));
    if (!rest.starts_with(':')) continue;
    if (accept(without_leading_space(rest.substr(1)))) return true;
  }
  return false;
}

template <std::size_t N>
bool has_any_key(std::string_view data, const std::array<QuotedKey, N>& keys) {
  return std::ranges::any_of(keys, [&](const QuotedKey& key) {
    return any_value_of(data, key, [](std::string_view) { return true; });
  });
}

/// The string at the beginning of `text`, without its quotation marks; empty if there is none.
std::string_view leading_string(std::string_view text) {
  if (!text.starts_with('"')) return {};
  text.remove_prefix(1);
  const std::size_t end = text.find('"');
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end);
}

/// A SAX handler to which all scalars and all containers look alike: each handler returns whether
/// to go on.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  void read(std::string_view data) {
    nlohmann::json::sax_parse(data.begin(), data.end(), this, nlohmann::json::input_format_t::json,
                              /*strict=*/false);
  }

  bool null() override { return scalar(nullptr, std::nullopt); }
  bool boolean(bool yes) override { return scalar(nullptr, yes); }
  bool number_integer(number_integer_t) override { return scalar(nullptr, std::nullopt); }
  bool number_unsigned(number_unsigned_t) override { return scalar(nullptr, std::nullopt); }
  bool number_float(number_float_t, const string_t&) override {
    return scalar(nullptr, std::nullopt);
  }
  bool binary(binary_t&) override { return scalar(nullptr, std::nullopt); }
  bool string(string_t& text) override { return scalar(&text, std::nullopt); }
  bool start_object(std::size_t) override { return open(false); }
  bool start_array(std::size_t) override { return open(true); }
  bool end_object() override { return close(); }
  bool end_array() override { return close(); }
  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 protected:
  virtual bool scalar(const std::string* text, std::optional<bool> truth) = 0;
  virtual bool open(bool is_array) = 0;
  virtual bool close() = 0;
};

/// Finds one string member of the top of an object, or of an object in it.
class StringReader final : public Reader {
 public:
  enum class Wanted : std::uint8_t { type, model };

  explicit StringReader(Wanted wanted) : wanted_(wanted) {}

  const std::optional<std::string>& found() const { return found_ ? found_ : second_; }

  bool key(string_t& name) override {
    // Deeper keys are never asked for; leaving them out spares the copies.
    if (depth_ <= 2) key_ = name;
    return true;
  }

 private:
  bool scalar(const std::string* text, std::optional<bool>) override {
    if (text == nullptr || depth_ > 2) return true;
    if (depth_ == 1 && key_ == (wanted_ == Wanted::type ? "type" : "model")) {
      found_ = *text;
      return false;
    }
    if (wanted_ == Wanted::type) return true;
    if (depth_ == 1 && key_ == "modelVersion") second_ = *text;
    if (depth_ == 2 && in_carrier_ && key_ == "model" && !second_) second_ = *text;
    return true;
  }

  bool open(bool is_array) override {
    if (depth_ == 1) in_carrier_ = !is_array && (key_ == "message" || key_ == "response");
    ++depth_;
    return true;
  }

  bool close() override {
    --depth_;
    return true;
  }

  Wanted wanted_;
  std::size_t depth_ = 0;
  bool in_carrier_ = false;  ///< the member of the top that is being read may hold the model
  std::string key_;
  std::optional<std::string> found_;
  std::optional<std::string> second_;  ///< taken if nothing is found in the first place
};

/// Members of a delta or a message that are there before there is any output.
constexpr std::array<std::string_view, 4> kNoOutput = {"role", "name", "id", "type"};
/// Members beside `done` that hold output, as servers with an API of their own name them.
constexpr std::array<std::string_view, 10> kTextMembers = {
    "response", "content", "message", "thinking", "text",
    "token",    "delta",   "output",  "answer",   "generated_text"};
/// Parts of Gemini's content that are output by being there.
constexpr std::array<std::string_view, 6> kOutputParts = {"functionCall",        "functionResponse",
                                                          "inlineData",          "fileData",
                                                          "codeExecutionResult", "executableCode"};

class ShapeReader final : public Reader {
 public:
  EventShape shape() const {
    EventShape shape = shape_;
    // A list that is not over has said nothing yet.
    const bool decided = answers_over_ || shape.answers == EventShape::Answers::with_output;
    if (strange_ || !decided) shape.answers = EventShape::Answers::none;
    return shape;
  }

  bool key(string_t& name) override {
    if (depth_ <= path_.size()) key_ = name;
    return true;
  }

 private:
  /// What the container that is being read is.
  enum class Where : std::uint8_t {
    other,
    top,
    choices,
    choice,
    delta,
    payload,  ///< inside of a delta: whatever stands there is output
    candidates,
    candidate,
    content,
    parts,
    part,
    message,  ///< beside `done`
    message_payload,
    error,
  };

  Where where() const {
    return depth_ == 0 || depth_ > path_.size() ? Where::other : path_[depth_ - 1];
  }

  bool scalar(const std::string* text, std::optional<bool> truth) override {
    const bool says_something = text != nullptr && !text->empty();
    switch (where()) {
      case Where::top:
        top_scalar(says_something, text != nullptr, truth);
        return true;
      case Where::choices:
      case Where::candidates:
        strange_ = true;
        return false;
      case Where::choice:
      case Where::part:
        return key_ == "text" && says_something ? found_output() : true;
      case Where::delta:
        return says_something && !is_one_of(key_, kNoOutput) ? found_output() : true;
      case Where::payload:
        return found_output();
      case Where::message:
        shape_.has_text = shape_.has_text || (says_something && !is_one_of(key_, kNoOutput));
        return true;
      case Where::message_payload:
        shape_.has_text = true;
        return true;
      case Where::error:
        shape_.has_error = true;
        return true;
      case Where::other:
      case Where::candidate:
      case Where::content:
      case Where::parts:
        return true;
    }
    return true;
  }

  void top_scalar(bool says_something, bool is_text, std::optional<bool> truth) {
    if (truth && (key_ == "done" || key_ == "stop")) shape_.done = shape_.done == true || *truth;
    if (key_ == "error") shape_.has_error = shape_.has_error || says_something;
    if (!is_text || !is_one_of(key_, kTextMembers)) return;
    shape_.has_text_member = true;
    shape_.has_text = shape_.has_text || says_something;
  }

  bool open(bool is_array) override {
    const Where inner = depth_ == 0 ? Where::top : inside(where(), is_array);
    if (depth_ < path_.size()) path_[depth_] = inner;
    ++depth_;
    return !strange_ && shape_.answers != EventShape::Answers::with_output;
  }

  /// What a container inside of an `outer` one is.
  Where inside(Where outer, bool is_array) {
    switch (outer) {
      case Where::top:
        return inside_top(is_array);
      case Where::choices:
      case Where::candidates:
        strange_ = strange_ || is_array;
        shape_.answers = EventShape::Answers::without_output;
        return outer == Where::choices ? Where::choice : Where::candidate;
      case Where::choice:
        return !is_array && (key_ == "delta" || key_ == "message") ? Where::delta : Where::other;
      case Where::delta:
        return is_one_of(key_, kNoOutput) ? Where::other : Where::payload;
      case Where::payload:
        found_output();
        return Where::other;
      case Where::candidate:
        return !is_array && key_ == "content" ? Where::content : Where::other;
      case Where::content:
        return is_array && key_ == "parts" ? Where::parts : Where::other;
      case Where::parts:
        return is_array ? Where::other : Where::part;
      case Where::part:
        if (is_one_of(key_, kOutputParts)) found_output();
        return Where::other;
      case Where::message:
        return is_one_of(key_, kNoOutput) ? Where::other : Where::message_payload;
      case Where::message_payload:
        shape_.has_text = true;
        return Where::other;
      case Where::error:
        shape_.has_error = true;
        return Where::other;
      case Where::other:
        return Where::other;
    }
    return Where::other;
  }

  Where inside_top(bool is_array) {
    if (is_array && !answers_over_ && (key_ == "choices" || key_ == "candidates")) {
      shape_.answers = EventShape::Answers::empty;
      return key_ == "choices" ? Where::choices : Where::candidates;
    }
    if (key_ == "error") return Where::error;
    if (is_array) return Where::other;
    if (key_ == "usageMetadata" || key_ == "promptFeedback") shape_.has_usage = true;
    if (key_ != "message") return Where::other;
    shape_.has_text_member = true;
    return Where::message;
  }

  bool close() override {
    const Where left = where();
    --depth_;
    // Nothing behind the list of answers changes what it says.
    if (left == Where::choices || left == Where::candidates) answers_over_ = true;
    return !answers_over_;
  }

  bool found_output() {
    shape_.answers = EventShape::Answers::with_output;
    return false;
  }

  EventShape shape_;
  bool answers_over_ = false;
  bool strange_ = false;
  std::array<Where, 8> path_{};  ///< the containers around, from the top; deeper ones are not known
  std::size_t depth_ = 0;
  std::string key_;
};

}  // namespace

bool looks_like_object(std::string_view data) {
  return without_leading_space(data).starts_with('{');
}

std::optional<std::string> type_in(std::string_view data, bool (*matters)(std::string_view type)) {
  if (!looks_like_object(data)) return std::nullopt;
  const bool possible = any_value_of(
      data, kTypeKey, [&](std::string_view rest) { return matters(leading_string(rest)); });
  if (!possible) return std::nullopt;
  StringReader reader(StringReader::Wanted::type);
  reader.read(data);
  if (!reader.found() || !matters(*reader.found())) return std::nullopt;
  return reader.found();
}

std::optional<std::string> model_in(std::string_view data) {
  if (!looks_like_object(data) || !has_any_key(data, kModelKeys)) return std::nullopt;
  StringReader reader(StringReader::Wanted::model);
  reader.read(data);
  return reader.found();
}

EventShape shape_of(std::string_view data) {
  if (!looks_like_object(data) || !has_any_key(data, kShapeKeys)) return {};
  ShapeReader reader;
  reader.read(data);
  return reader.shape();
}

}  // namespace gcause
