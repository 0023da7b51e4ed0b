// SPDX-License-Identifier: Apache-2.0
#include "stream/chunk_rules.h"

#include <catch2/catch_test_macros.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

using gcause::EventClass;
using gcause::model_of;
using gcause::role_of_event;

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
    const auto role = role_of_event(rule.type, rule.data);
    CHECK(role.kind == rule.expected);
    CHECK(role.last == rule.ends);
    CHECK_FALSE(role.name.empty());
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

TEST_CASE("Chat completions: a chunk has output, whoever serves it", "[rules]") {
  const auto chat = [](const std::string& delta, const std::string& rest = "") {
    return R"({"id":"chatcmpl-1","object":"chat.completion.chunk","created":1,"model":"m",)"
           R"("choices":[{"index":0,"delta":)" +
           delta + R"(,"logprobs":null,"finish_reason":null}])" + rest + "}";
  };
  // What it begins with, and what it ends with.
  for (const auto* none :
       {R"({"role":"assistant","content":""})", R"({"role":"assistant"})",
        R"({"role":"assistant","content":null,"refusal":null})",
        R"({"role":"assistant","content":"","reasoning_content":null,"tool_calls":[]})",
        R"({"content":"","function_call":{}})", R"({"id":"x","name":"y","type":"z"})", "{}"}) {
    require_rules({{"", chat(none), EventClass::other}});
  }
  for (const auto* some :
       {R"({"content":"a"})", R"({"content":" "})", R"({"role":"assistant","content":"a"})",
        R"({"refusal":"no"})", R"({"reasoning_content":"hm"})", R"({"reasoning":"hm"})",
        R"({"content":"","reasoning":"hm"})", R"({"function_call":{"name":"f","arguments":""}})",
        R"({"tool_calls":[{"index":0,"id":"c","type":"function","function":{"name":"f"}}]})",
        R"({"tool_calls":[{"index":0,"function":{"arguments":"{\""}}]})",
        R"({"content":[{"type":"thinking","thinking":[{"type":"text","text":"hm"}]}]})",
        R"({"audio":{"data":"AAAA"}})", R"({"reasoning_details":[{"text":"hm"}],"content":""})"}) {
    require_rules({{"", chat(some), EventClass::chunk}, {"", chat(some, R"(,"p":"abc")"),
                                                         EventClass::chunk}});
  }
  require_rules(
      {{"", R"({"choices":[{"delta":{},"index":0,"finish_reason":"stop"}],"usage":{"a":1}})",
        EventClass::other},
       // Several answers: one of them is enough.
       {"", R"({"choices":[{"delta":{"content":""}},{"delta":{"content":"b"}}]})",
        EventClass::chunk},
       // Azure: the verdict of a filter.
       {"", R"({"choices":[{"content_filter_results":{"hate":{"severity":"safe"}},"index":0}]})",
        EventClass::other},
       // An error in the middle of a stream.
       {"", R"({"error":{"code":502,"message":"gone"},"choices":[{"delta":{"content":""}}]})",
        EventClass::other},
       {"", R"({"error":{"message":"overloaded"}})", EventClass::other},
       {"", R"({"error":"overloaded"})", EventClass::other},
       {"", R"({"error":null,"token":"a"})", EventClass::chunk},
       {"", R"({"error":{},"token":"a"})", EventClass::chunk},
       // A server that sends whole messages.
       {"", R"({"choices":[{"message":{"role":"assistant","content":"a"}}]})", EventClass::chunk}});
}

TEST_CASE("Completions: a chunk has text", "[rules]") {
  require_rules(
      {{"", R"({"choices":[{"text":"a","index":0,"finish_reason":null}]})", EventClass::chunk},
       {"", R"({"choices":[{"text":"","index":0,"finish_reason":"stop"}]})", EventClass::other}});
}

TEST_CASE("A list of answers that is cut off has said nothing yet", "[rules]") {
  require_rules({{"", R"({"choices":[{"delta":{"role":"assistant")", EventClass::chunk},
                 {"", R"({"choices":[)", EventClass::chunk},
                 {"", R"({"choices":[],"x":)", EventClass::usage_only},
                 {"", R"({"choices":[{"delta":{}}],"x":)", EventClass::other}});
}

TEST_CASE("OpenAI's other streams, and Mistral's conversations, go by their names", "[rules]") {
  for (const std::string name :
       {"thread.message.delta", "thread.run.step.delta", "transcript.text.delta",
        "speech.audio.delta", "response.mcp_call_arguments.delta", "message.output.delta",
        "function.call.delta"}) {
    require_rules({{name, typed(name), EventClass::chunk}, {"", typed(name), EventClass::chunk}});
  }
  for (const std::string name : {"thread.run.created", "thread.message.completed", "error",
                                 "response.queued", "conversation.response.started",
                                 "tool.execution.started", "agent.handoff.done"}) {
    require_rules({{name, typed(name), EventClass::other}, {"", typed(name), EventClass::other}});
  }
  for (const std::string name :
       {"transcript.text.done", "speech.audio.done", "conversation.response.done"}) {
    require_rules({{name, typed(name), EventClass::other, true}});
  }
}

TEST_CASE("Gemini: a chunk has parts with output", "[rules]") {
  const auto parts = [](const std::string& list) {
    return R"({"candidates":[{"content":{"parts":)" + list +
           R"(,"role":"model"},"finishReason":"STOP","index":0}],"usageMetadata":{"a":1},)"
           R"("modelVersion":"gemini-test"})";
  };
  for (const auto* some :
       {R"([{"text":"a"}])", R"([{"text":""},{"text":"b"}])", R"([{"text":"hm","thought":true}])",
        R"([{"functionCall":{"name":"f","args":{}}}])", R"([{"inlineData":{"data":"AA"}}])",
        R"([{"executableCode":{"code":"1"}}])"}) {
    require_rules({{"", parts(some), EventClass::chunk}});
  }
  for (const auto* none : {"[]", "[{}]", R"([{"text":""}])", R"([{"thoughtSignature":"AA"}])",
                           R"([{"text":"","thoughtSignature":"AA"}])"}) {
    require_rules({{"", parts(none), EventClass::other}});
  }
  require_rules({{"", R"({"candidates":[{"finishReason":"SAFETY"}]})", EventClass::other},
                 {"", R"({"usageMetadata":{"totalTokenCount":7},"modelVersion":"gemini-test"})",
                  EventClass::usage_only},
                 {"", R"({"promptFeedback":{"blockReason":"SAFETY"}})", EventClass::usage_only}});
  CHECK(model_of(parts(R"([{"text":"a"}])")) == "gemini-test");
}

TEST_CASE("ollama and llama.cpp: output makes a chunk, done is the end", "[rules]") {
  require_rules(
      {{"", R"({"model":"m","created_at":"t","response":"The","done":false})", EventClass::chunk},
       {"", R"({"model":"m","response":"","done":true,"done_reason":"stop","context":[1,2]})",
        EventClass::done_marker, true},
       {"", R"({"model":"m","message":{"role":"assistant","content":"The"},"done":false})",
        EventClass::chunk},
       {"", R"({"model":"m","message":{"role":"assistant","content":""},"done":false})",
        EventClass::other},
       {"", R"({"message":{"role":"assistant","content":"","thinking":"hm"},"done":false})",
        EventClass::chunk},
       {"", R"({"message":{"content":"","tool_calls":[{"function":{"name":"f"}}]},"done":false})",
        EventClass::chunk},
       {"", R"({"message":{"content":"","tool_calls":[]},"done":false})", EventClass::other},
       {"", R"({"message":{"role":"assistant","content":""},"done":true})",
        EventClass::done_marker, true},
       // The last piece of output may come with the end.
       {"", R"({"response":"!","done":true})", EventClass::chunk, true},
       {"", R"({"response":"","done":true,"context":[1,2)", EventClass::done_marker, true},
       {"", R"({"error":"model not found"})", EventClass::other},
       {"", R"({"index":0,"content":"a","stop":false})", EventClass::chunk},
       {"", R"({"index":0,"content":"","stop":true,"timings":{"a":1}})", EventClass::done_marker,
        true},
       // Not of these two: nothing is known of its members.
       {"", R"({"chars":"a","done":false})", EventClass::chunk},
       {"", R"({"done":"yes","chars":"a"})", EventClass::chunk},
       {"", R"({"status":"pulling","total":7})", EventClass::chunk}});
}

TEST_CASE("What an event is counted as is a word of our own", "[rules]") {
  CHECK(role_of_event("", "[DONE]").name == "done");
  CHECK(role_of_event("", R"({"a":1})").name == "chunk");
  CHECK(role_of_event("secret", "secret").name == "chunk");
  CHECK(role_of_event("ping", "{}").name == "ping");
  CHECK(role_of_event("response.secret", "{}").name == "response.*");
  CHECK(role_of_event("response.secret.delta", "{}").name == "response.*.delta");
  CHECK(role_of_event("", R"({"type":"thread.secret"})").name == "thread.*");
  CHECK(role_of_event("", R"({"error":"secret"})").name == "error");
  CHECK(role_of_event("", R"({"choices":[]})").name == "usage");
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

TEST_CASE("A long event is not read to its end", "[rules]") {
  const std::string megabyte(1 << 20, 'x');
  const std::string early = R"({"choices":[{"delta":{"content":"a"}}],"x":")" + megabyte;
  const std::string unknown = R"({"x":")" + megabyte + "\"}";
  CHECK(role_of_event("", early).kind == EventClass::chunk);
  CHECK(role_of_event("", unknown).kind == EventClass::chunk);
  CHECK(role_of_event("", R"({"type":"response.completed","x":")" + megabyte).last);
}

TEST_CASE("Deep and broken JSON does no harm", "[rules]") {
  const std::string deep = "{\"a\":" + std::string(60000, '[');
  CHECK(role_of_event("", deep + "\"type\":\"ping\",\"choices\":[]").kind == EventClass::chunk);
  CHECK_FALSE(model_of(deep + "\"model\":\"a\"").has_value());
  CHECK(role_of_event("", "{\"type\":\"ping\"").kind == EventClass::ping);
  CHECK(role_of_event("", "{\"n\":1e999999,\"type\":\"ping\"}").kind == EventClass::chunk);
}
