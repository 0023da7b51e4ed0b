// SPDX-License-Identifier: Apache-2.0
#include "stream/chunk_rules.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>

namespace gcause {
namespace {

constexpr std::string_view kDoneMarker = "[DONE]";

constexpr std::array<std::string_view, 5> kAnthropicFrames = {
    "message_start", "content_block_start", "content_block_stop", "message_delta", "message_stop"};

constexpr std::array<std::string_view, 4> kLastEvents = {"message_stop", "response.completed",
                                                         "response.failed", "response.incomplete"};

template <std::size_t N>
bool is_one_of(std::string_view name, const std::array<std::string_view, N>& names) {
  for (const std::string_view candidate : names) {
    if (name == candidate) return true;
  }
  return false;
}

/// What the name of an event says, whether it stands in the `event:` line or in the JSON object;
/// nothing for a name of no known protocol.
std::optional<EventClass> class_of_name(std::string_view name) {
  if (name == "ping") return EventClass::ping;
  if (name == "content_block_delta") return EventClass::chunk;
  if (is_one_of(name, kAnthropicFrames)) return EventClass::other;
  if (name.starts_with("response.")) {
    return name.ends_with(".delta") ? EventClass::chunk : EventClass::other;
  }
  return std::nullopt;
}

/// Reads single members near the top of a JSON object (of text that begins with a brace) and stops
/// as soon as it has what it is after. So the data may be cut off, or broken, behind that member,
/// and nothing is built.
class MemberReader final : public nlohmann::json_sax<nlohmann::json> {
 public:
  enum class Wanted { type, empty_choices, model };

  explicit MemberReader(Wanted wanted) : wanted_(wanted) {}

  void read(std::string_view data) {
    nlohmann::json::sax_parse(data.begin(), data.end(), this, nlohmann::json::input_format_t::json,
                              /*strict=*/false);
  }

  /// The wanted string: `type` or `model`.
  const std::optional<std::string>& found() const { return found_ ? found_ : nested_; }
  bool has_empty_choices() const { return empty_choices_; }

  bool null() override { return value(); }
  bool boolean(bool) override { return value(); }
  bool number_integer(number_integer_t) override { return value(); }
  bool number_unsigned(number_unsigned_t) override { return value(); }
  bool number_float(number_float_t, const string_t&) override { return value(); }
  bool binary(binary_t&) override { return value(); }

  bool string(string_t& text) override {
    if (depth_ == 1 && ((wanted_ == Wanted::type && key_ == "type") ||
                        (wanted_ == Wanted::model && key_ == "model"))) {
      found_ = text;
      return false;
    }
    if (depth_ == 2 && wanted_ == Wanted::model && in_carrier_ && key_ == "model") nested_ = text;
    return value();
  }

  bool start_object(std::size_t) override {
    if (!value()) return false;
    if (depth_ == 1) in_carrier_ = key_ == "message" || key_ == "response";
    ++depth_;
    return true;
  }

  bool key(string_t& name) override {
    // Deeper keys are never asked for; leaving them out spares the copies.
    if (depth_ <= 2) key_ = name;
    return true;
  }

  bool end_object() override {
    --depth_;
    return true;
  }

  bool start_array(std::size_t) override {
    if (!value()) return false;
    choices_open_ = wanted_ == Wanted::empty_choices && depth_ == 1 && key_ == "choices";
    if (depth_ == 1) in_carrier_ = false;
    ++depth_;
    return true;
  }

  bool end_array() override {
    --depth_;
    empty_choices_ = choices_open_;
    return !choices_open_;
  }

  bool parse_error(std::size_t, const std::string&, const nlohmann::json::exception&) override {
    return false;
  }

 private:
  /// Every value passes here; one inside the `choices` array ends the search for an empty one.
  bool value() const { return !choices_open_; }

  Wanted wanted_;
  std::size_t depth_ = 0;
  bool in_carrier_ =
      false;  ///< the member of the top that is being read is `message` or `response`
  bool choices_open_ = false;
  bool empty_choices_ = false;
  std::string key_;
  std::optional<std::string> found_;
  std::optional<std::string> nested_;
};

constexpr bool is_json_space(char c) { return c == ' ' || c == '\t' || c == '\n' || c == '\r'; }

std::string_view without_leading_space(std::string_view text) {
  while (!text.empty() && is_json_space(text.front())) text.remove_prefix(1);
  return text;
}

/// A quoted JSON key and the place of a letter in it that is rare in JSON and in prose. Searching
/// for that letter stops far less often than for the quotation mark.
struct QuotedKey {
  std::string_view text;
  std::size_t rare;
};

constexpr QuotedKey kTypeKey = {"\"type\"", 2};
constexpr QuotedKey kChoicesKey = {"\"choices\"", 2};
constexpr QuotedKey kModelKey = {"\"model\"", 1};

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

/// The string at the beginning of `text`, without its quotation marks; empty if there is none.
std::string_view leading_string(std::string_view text) {
  if (!text.starts_with('"')) return {};
  text.remove_prefix(1);
  const std::size_t end = text.find('"');
  return end == std::string_view::npos ? std::string_view() : text.substr(0, end);
}

bool looks_like_object(std::string_view data) {
  return without_leading_space(data).starts_with('{');
}

/// The `type` of the JSON object in `data`, if it is one that `matters`; the object is parsed only
/// if such a name stands behind some `"type":`.
template <typename Matters>
std::optional<std::string> named_type(std::string_view data, Matters matters) {
  const bool possible = any_value_of(
      data, kTypeKey, [&](std::string_view rest) { return matters(leading_string(rest)); });
  if (!possible) return std::nullopt;
  MemberReader reader(MemberReader::Wanted::type);
  reader.read(data);
  if (!reader.found() || !matters(*reader.found())) return std::nullopt;
  return reader.found();
}

bool has_empty_choices(std::string_view data) {
  const bool possible = any_value_of(data, kChoicesKey, [](std::string_view rest) {
    return rest.starts_with('[') && without_leading_space(rest.substr(1)).starts_with(']');
  });
  if (!possible) return false;
  MemberReader reader(MemberReader::Wanted::empty_choices);
  reader.read(data);
  return reader.has_empty_choices();
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

EventClass classify_event(std::string_view type, std::string_view data) {
  if (data == kDoneMarker) return EventClass::done_marker;
  if (const auto by_name = class_of_name(type)) return *by_name;
  if (data.empty()) return EventClass::other;
  if (!looks_like_object(data)) return EventClass::chunk;

  const auto is_no_chunk = [](std::string_view name) {
    return class_of_name(name).value_or(EventClass::chunk) != EventClass::chunk;
  };
  if (const auto name = named_type(data, is_no_chunk)) return *class_of_name(*name);
  return has_empty_choices(data) ? EventClass::usage_only : EventClass::chunk;
}

bool ends_stream(std::string_view type, std::string_view data) {
  if (data == kDoneMarker) return true;
  if (class_of_name(type)) return is_one_of(type, kLastEvents);
  if (!looks_like_object(data)) return false;
  const auto is_last = [](std::string_view name) { return is_one_of(name, kLastEvents); };
  return named_type(data, is_last).has_value();
}

std::optional<std::string> model_of(std::string_view data) {
  if (!looks_like_object(data)) return std::nullopt;
  const auto any = [](std::string_view) { return true; };
  if (!any_value_of(data, kModelKey, any)) return std::nullopt;
  MemberReader reader(MemberReader::Wanted::model);
  reader.read(data);
  const std::optional<std::string>& model = reader.found();
  if (!model || model->empty() || model->size() > kMaxModelName) return std::nullopt;
  if (!is_all_printable(*model)) return std::nullopt;
  return model;
}

}  // namespace gcause
