// SPDX-License-Identifier: Apache-2.0
#include "stream/chunk_rules.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using gcause::classify_event;
using gcause::ends_stream;
using gcause::EventClass;
using gcause::model_of;

namespace {

struct Rule {
  std::string type;
  std::string data;
  EventClass expected;
  bool ends = false;
};

void require_rules(const std::vector<Rule>& rules) {
  for (const Rule& rule : rules) {
    INFO("type <" << rule.type << ">, data <" << rule.data << ">");
    CHECK(classify_event(rule.type, rule.data) == rule.expected);
    CHECK(ends_stream(rule.type, rule.data) == rule.ends);
  }
}

std::string typed(std::string_view type) { return "{\"type\":\"" + std::string(type) + "\"}"; }

}  // namespace

TEST_CASE("The done marker is exactly [DONE]", "[rules]") {
  require_rules({{"", "[DONE]", EventClass::done_marker, true},
                 {"message", "[DONE]", EventClass::done_marker, true},
                 {"", "[DONE", EventClass::chunk},
                 {"", "{\"text\":\"[DONE]\"}", EventClass::chunk},
                 {"", "[DONE]\n[DONE]", EventClass::chunk}});
}

TEST_CASE("Anything with data and without a known shape is a chunk", "[rules]") {
  require_rules({{"", "hello", EventClass::chunk},
                 {"message", "{\"i\":0}", EventClass::chunk},
                 {"token", "x", EventClass::chunk},
                 {"", "{", EventClass::chunk},
                 {"", " ", EventClass::chunk},
                 {"", "[]", EventClass::chunk},
                 {"", "\xFF\xFE", EventClass::chunk},
                 {"", "", EventClass::other},
                 {"token", "", EventClass::other}});
}

TEST_CASE("C19: the events of Anthropic's Messages API", "[rules]") {
  const std::vector<std::pair<std::string, EventClass>> names = {
      {"message_start", EventClass::other},
      {"content_block_start", EventClass::other},
      {"ping", EventClass::ping},
      {"content_block_delta", EventClass::chunk},
      {"content_block_stop", EventClass::other},
      {"message_delta", EventClass::other},
      {"message_stop", EventClass::other}};
  for (const auto& [name, expected] : names) {
    const bool ends = name == "message_stop";
    require_rules(
        {{name, typed(name), expected, ends},
         {name, "{}", expected, ends},
         {"", typed(name), expected, ends},
         {"message", typed(name), expected, ends},
         {"", "{ \"x\" : [1,{\"type\":1}] ,\n\"type\" :\t\"" + name + "\" }", expected, ends}});
  }
}

TEST_CASE("C33: the events of OpenAI's Responses API", "[rules]") {
  const std::vector<Rule> by_name = {
      {"response.created", "", EventClass::other},
      {"response.in_progress", "", EventClass::other},
      {"response.output_item.added", "", EventClass::other},
      {"response.output_text.delta", "", EventClass::chunk},
      {"response.reasoning_summary_text.delta", "", EventClass::chunk},
      {"response.output_text.done", "", EventClass::other},
      {"response.completed", "", EventClass::other, true},
      {"response.failed", "", EventClass::other, true},
      {"response.incomplete", "", EventClass::other, true}};
  for (const Rule& rule : by_name) {
    const std::string json = "{\"type\":\"" + rule.type + "\",\"delta\":\"x\"}";
    require_rules(
        {{rule.type, json, rule.expected, rule.ends}, {"", json, rule.expected, rule.ends}});
  }
}

TEST_CASE("C33: a truncated final event is still known by its type", "[rules]") {
  const std::string cut =
      "{\"type\":\"response.completed\",\"response\":{\"output\":[{\"text\":\"yyy";
  require_rules(
      {{"", cut, EventClass::other, true}, {"response.completed", cut, EventClass::other, true}});
}

TEST_CASE("C34: empty choices are usage or a filter's verdict, not output", "[rules]") {
  require_rules({{"", R"({"choices":[],"usage":{"total_tokens":7}})", EventClass::usage_only},
                 {"", R"({"id":"","choices" : [ ] ,"prompt_filter_results":[{"i":0}]})",
                  EventClass::usage_only},
                 {"message", R"({"usage":{"choices":[1]},"choices":[]})", EventClass::usage_only},
                 {"", R"({"choices":[{"index":0,"delta":{"content":"a"}}]})", EventClass::chunk},
                 {"", R"({"choices":[[]]})", EventClass::chunk},
                 {"", R"({"choices":{}})", EventClass::chunk},
                 {"", R"({"x":{"choices":[]},"delta":"a"})", EventClass::chunk},
                 {"", R"([{"choices":[]}])", EventClass::chunk},
                 {"", R"({"text":"say \"choices\":[]"})", EventClass::chunk}});
}

TEST_CASE("Only the type of the whole object counts", "[rules]") {
  require_rules({{"", R"({"delta":{"type":"ping"}})", EventClass::chunk},
                 {"", R"([{"type":"ping"}])", EventClass::chunk},
                 {"", R"({"text":"\"type\":\"ping\""})", EventClass::chunk},
                 {"", R"({"x":["type","ping"],"type":["ping"]})", EventClass::chunk},
                 {"", R"({"item":{"type":"message_stop"},"type":"ping"})", EventClass::ping},
                 {"", R"({"x":{"type":"message_stop"}})", EventClass::chunk},
                 {"", R"({"type":"function","f":{"type":"message_stop"}})", EventClass::chunk},
                 {"", R"(x{"type":"ping"})", EventClass::chunk},
                 {"", R"({"a" "type":"ping"})", EventClass::chunk},
                 {"", R"({"type":"pin)", EventClass::chunk}});
}

TEST_CASE("A known event name decides before the data", "[rules]") {
  require_rules({{"content_block_delta", R"({"type":"ping"})", EventClass::chunk},
                 {"response.output_text.delta", R"({"choices":[]})", EventClass::chunk},
                 {"ping", R"({"type":"message_stop"})", EventClass::ping},
                 {"custom", R"({"type":"ping"})", EventClass::ping},
                 {"responses", R"({"a":1})", EventClass::chunk}});
}

TEST_CASE("The model is found where the three APIs put it", "[rules]") {
  CHECK(model_of(R"({"id":"1","model":"m-1","choices":[]})") == "m-1");
  CHECK(
      model_of(R"({"type":"message_start","message":{"id":"x","usage":{"a":1},"model":"m-2"}})") ==
      "m-2");
  CHECK(model_of(R"({"type":"response.created","response":{"tools":[{}],"model":"m-3","x":[)") ==
        "m-3");
  CHECK(model_of(R"({"message":{"model":"inner"},"model":"outer"})") == "outer");
  CHECK(model_of("{\"model\":\"\xE4\xBD\xA0 \xF0\x9F\xA6\x80\"}") ==
        "\xE4\xBD\xA0 \xF0\x9F\xA6\x80");
  CHECK(model_of(R"({"model":"caf\u00e9"})") == "caf\xC3\xA9");
}

TEST_CASE("No model where there is none", "[rules]") {
  for (const std::string_view data :
       {"", "[DONE]", "{}", R"({"model":1})", R"({"model":null})", R"({"model":["a"]})",
        R"({"x":{"model":"a"}})", R"({"message":{"x":{"model":"a"}}})",
        R"({"message":[{"model":"a"}]})", R"({"message":{},"model":["a"]})", R"([{"model":"a"}])",
        R"({"model":"a)", R"({"response":{},"x":{"model":"a"}})",
        R"({"text":"\"model\":\"a\""})"}) {
    INFO(data);
    CHECK_FALSE(model_of(data).has_value());
  }
}

TEST_CASE("A model name is short and printable or it is not believed", "[rules]") {
  const auto named = [](const std::string& name) {
    return model_of("{\"model\":\"" + name + "\"}");
  };
  CHECK(named(std::string(128, 'm')) == std::string(128, 'm'));
  for (const std::string& name :
       {std::string(), std::string(129, 'm'), std::string("a\\n"), std::string("a\\u001b[31m"),
        std::string("a\\u007f"), std::string("a\\u0085"), std::string("a\\u0000"),
        std::string("a\\u202eb"), std::string("a\\u200bb"), std::string("\\ufeff"),
        std::string("a\\ud83e"), std::string("\xC3\x28"), std::string("\xED\xA0\x80"),
        std::string("\xC0\x80"), std::string("\xF4\x90\x80\x80"), std::string("\\udb40\\udc41")}) {
    INFO(name);
    CHECK_FALSE(named(name).has_value());
  }
}

TEST_CASE("Deep and broken JSON does no harm", "[rules]") {
  const std::string deep = "{\"a\":" + std::string(60000, '[');
  CHECK(classify_event("", deep + "\"type\":\"ping\",\"choices\":[]") == EventClass::chunk);
  CHECK_FALSE(model_of(deep + "\"model\":\"a\"").has_value());
  CHECK(classify_event("", "{\"type\":\"ping\"") == EventClass::ping);
  CHECK(classify_event("", "{\"n\":1e999999,\"type\":\"ping\"}") == EventClass::chunk);
}
