#include "gateway/chat_body.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace artesian {
namespace {

using Json = nlohmann::ordered_json;

// What the server of llama.cpp 0.6 is known to make of them; tests/gateway compares with what it does.
TEST(ChatBody, MessagesBecomeAChat) {
  const auto chat = chat_of_messages(R"({
    "model": "m", "max_tokens": 9, "stop_sequences": ["x"],
    "system": [{"type": "text", "text": "x-anthropic-billing-header: cch=a5145;You are"}, {"type": "text", "text": " kind"}],
    "messages": [
      {"role": "user", "content": "hello"},
      {"role": "assistant", "content": [{"type": "thinking", "thinking": "well"},
                                        {"type": "tool_use", "id": "t1", "name": "f", "input": {"b": 1, "a": 2}}]},
      {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1",
                                    "content": [{"type": "text", "text": "4"}, {"type": "text", "text": "2"}]},
                                   {"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}]},
      {"role": "assistant"}],
    "tools": [{"name": "f", "description": "d", "input_schema": {"z": 1, "y": 2}}],
    "tool_choice": {"type": "any"}})");
  ASSERT_TRUE(chat);
  EXPECT_EQ(Json::parse(*chat).dump(), Json::parse(R"({
    "messages": [
      {"role": "system", "content": "x-anthropic-billing-header: cch=fffff;You are kind"},
      {"role": "user", "content": "hello"},
      {"role": "assistant", "content": "",
       "tool_calls": [{"id": "t1", "type": "function", "function": {"name": "f", "arguments": "{\"b\":1,\"a\":2}"}}],
       "reasoning_content": "well"},
      {"role": "user", "content": [{"type": "text", "text": "go on", "cache_control": {"type": "ephemeral"}}]},
      {"role": "tool", "tool_call_id": "t1", "content": "42"}],
    "tools": [{"type": "function", "function": {"name": "f", "description": "d", "parameters": {"z": 1, "y": 2}}}],
    "tool_choice": "required"})")
                                           .dump());
}

TEST(ChatBody, ResponsesBecomeAChat) {
  const auto chat = chat_of_responses(R"({
    "instructions": "be kind", "reasoning": {"effort": "low"}, "temperature": 0,
    "input": [
      {"role": "user", "content": "hello"},
      {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "well"}]},
      {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
      {"type": "function_call_output", "call_id": "c1", "output": "42"},
      {"type": "message", "role": "assistant", "status": "completed", "id": "m1",
       "content": [{"type": "output_text", "text": "it is 42"}]},
      {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "thanks"}]}],
    "tools": [{"type": "function", "name": "f", "parameters": {"z": 1, "y": 2}}, {"type": "web_search"}]})");
  ASSERT_TRUE(chat);
  EXPECT_EQ(Json::parse(*chat).dump(), Json::parse(R"({
    "temperature": 0,
    "messages": [
      {"role": "system", "content": "be kind"},
      {"role": "user", "content": [{"text": "hello", "type": "text"}]},
      {"role": "assistant", "content": [], "reasoning_content": "well",
       "tool_calls": [{"function": {"arguments": "{}", "name": "f"}, "id": "c1", "type": "function"}]},
      {"content": "42", "role": "tool", "tool_call_id": "c1"},
      {"role": "assistant", "id": "m1", "content": [{"text": "it is 42", "type": "text"}]},
      {"role": "user", "content": [{"text": "thanks", "type": "text"}]}],
    "tools": [{"type": "function", "function": {"name": "f", "parameters": {"z": 1, "y": 2}, "strict": true}}],
    "reasoning_effort": "low"})")
                                           .dump());
}

TEST(ChatBody, WhatIsNotKnownIsLeftAlone) {
  for (const auto* body : {
           "",
           "{",
           "7",
           R"({"messages":7})",
           R"({"messages":[7]})",
           R"({"messages":[],"tools":[7]})",
           R"({"messages":[{"role":"user","content":[{"type":"image","source":{}}]}]})",
           R"({"messages":[{"role":"user","content":[{"type":"document"}]}]})",
           R"({"messages":[{"role":"user","content":[{"type":"tool_result","content":[{"type":"image"}]}]}]})",
       }) {
    EXPECT_FALSE(chat_of_messages(body)) << body;
  }
  for (const auto* body : {
           "",
           "{",
           "7",
           R"({"input":7})",
           R"({"input":[7]})",
           R"({"input":"x","tools":{}})",
           R"({"input":[{"role":"user","content":[{"type":"input_image","image_url":"x"}]}]})",
           R"({"input":[{"type":"reasoning","summary":[]}]})",
           R"({"input":[{"type":"of_tomorrow"}]})",
           R"({"input":[{"type":"function_call","call_id":"c"}]})",
           R"({"input":[{"type":"function_call_output","call_id":"c","output":7}]})",
       }) {
    EXPECT_FALSE(chat_of_responses(body)) << body;
  }
}

}  // namespace
}  // namespace artesian
