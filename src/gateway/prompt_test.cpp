#include "gateway/prompt.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace artesian {
namespace {

PromptRequest post(std::string_view path, std::string_view body) {
  return read_prompt("POST", path, body);
}

TEST(Prompt, KnowsWhichRequestsTakeASlot) {
  EXPECT_EQ(read_prompt("GET", "/v1/chat/completions", "").kind, PromptKind::none);
  EXPECT_EQ(post("/v1/chat/completions", R"({"messages":[{"role":"user","content":"x"}]})").kind, PromptKind::chat);
  EXPECT_EQ(post("/tokenize", "{}").kind, PromptKind::none);
  EXPECT_EQ(post("/infill", R"({"input_prefix":"x","input_suffix":"y"})").kind, PromptKind::pinned);
  EXPECT_EQ(post("/v1/embeddings", R"({"input":"x"})").kind, PromptKind::unpinned);
  EXPECT_EQ(post("/added/tomorrow", "x").kind, PromptKind::unpinned);
  EXPECT_EQ(post("/lora-adapters", "[]").kind, PromptKind::settings);
}

TEST(Prompt, TakesPromptsOfEveryForm) {
  const auto text = post("/completion", R"({"prompt":"a \"b\""})");
  EXPECT_EQ(text.kind, PromptKind::text);
  EXPECT_EQ(text.tokenize, R"({"add_special":true,"content":"a \"b\"","parse_special":true})");
  const auto tokens = post("/v1/completions", R"({"prompt":[1,2,3]})");
  EXPECT_EQ(tokens.kind, PromptKind::tokens);
  EXPECT_THAT(tokens.tokens, testing::ElementsAre(1, 2, 3));
  EXPECT_EQ(post("/completion", R"({"prompt":["a","b"]})").kind, PromptKind::unpinned);
  EXPECT_EQ(post("/completion", R"({"prompt":[1,-2]})").kind, PromptKind::unpinned);
  EXPECT_EQ(post("/completion", R"({"prompt":[]})").kind, PromptKind::unpinned);
  EXPECT_EQ(post("/completion", R"({})").kind, PromptKind::none);
}

TEST(Prompt, LeavesToTheServerWhatIsTheServers) {
  for (const auto* more : {R"("n":2)", R"("id_slot":1)", R"("lora":[])"}) {
    const auto body = fmt::format(R"({{"messages":[{{"role":"user","content":"x"}}],{}}})", more);
    EXPECT_EQ(post("/v1/chat/completions", body).kind, PromptKind::unpinned) << more;
  }
  EXPECT_EQ(post("/v1/chat/completions", R"({"messages":[{"content":[{"type":"text","text":"x"}]}]})").kind,
            PromptKind::chat);
  EXPECT_EQ(post("/v1/chat/completions", R"({"messages":[{"content":[{"type":"image_url"}]}]})").kind,
            PromptKind::unpinned);
}

TEST(Prompt, OtherFormsOfChatAreUnderstoodWhereTheServersTextIsKnown) {
  const auto responses = post("/v1/responses", R"({"input":"x"})");
  EXPECT_EQ(responses.kind, PromptKind::chat);
  EXPECT_TRUE(responses.named);
  EXPECT_EQ(responses.chat, R"({"messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(post("/v1/responses", R"({"input":[{"type":"item_of_tomorrow"}]})").kind, PromptKind::pinned);
  const auto messages = post("/v1/messages", R"({"messages":[{"role":"user","content":"x"}],"max_tokens":4})");
  EXPECT_EQ(messages.kind, PromptKind::chat);
  EXPECT_FALSE(messages.named);
  EXPECT_EQ(messages.chat, R"({"messages":[{"role":"user","content":"x"}]})");
  const auto image = post("/v1/messages", R"({"messages":[{"role":"user","content":[{"type":"image"}]}]})");
  EXPECT_EQ(image.kind, PromptKind::unpinned);
}

TEST(Prompt, NeverFailsOnABadBody) {
  for (const auto* body : {"", "{", "[]", "7", R"({"messages":7})", R"({"messages":[7]})", "\xff\xfe"}) {
    for (const auto* path : {"/v1/chat/completions", "/v1/messages", "/v1/responses"}) {
      const auto kind = post(path, body).kind;
      EXPECT_TRUE(kind == PromptKind::none || kind == PromptKind::unpinned || kind == PromptKind::pinned) << body;
    }
  }
}

TEST(Prompt, SaysWhatMayBeReusedAndKept) {
  const auto plain = post("/completion", R"({"prompt":"x"})");
  EXPECT_TRUE(plain.reuse && plain.keep);
  const auto other = post("/completion", R"({"prompt":"x","cache_prompt":false,"n_cache_reuse":64,"cache_salt":"s"})");
  EXPECT_TRUE(!other.reuse && !other.keep);
  EXPECT_EQ(other.salt, "s");
}

TEST(Prompt, ASlotIsPutInFrontAndNothingElseChanges) {
  EXPECT_EQ(with_slot(R"( { "a":1})", 3), R"( {"id_slot":3, "a":1})");
  EXPECT_EQ(with_slot("{ }", 3), R"({"id_slot":3 })");
}

TEST(Prompt, FindsTheTimingsButNotAMentionOfThem) {
  const auto timings =
      find_timings(R"({"content":"\"cache_n\":7,","timings":{"cache_n":2048,"prompt_n": 12,"prompt_ms":3.5,"x":1}})");
  ASSERT_TRUE(timings);
  EXPECT_EQ(timings->cached, 2048U);
  EXPECT_EQ(timings->computed, 12U);
  EXPECT_EQ(timings->prompt_ms, 3.5);
  EXPECT_FALSE(find_timings(R"({"content":"\"cache_n\":7,\"prompt_n\":1,\"prompt_ms\":1,"})"));
  EXPECT_FALSE(find_timings(""));
}

TEST(Prompt, FindsTheUsageWhereThereAreNoTimings) {
  const auto message = find_usage(R"({"content":[],"usage":{"cache_read_input_tokens":700,"input_tokens":9}})");
  ASSERT_TRUE(message);
  EXPECT_EQ(message->cached, 700U);
  EXPECT_EQ(message->computed, 9U);
  const auto response =
      find_usage(R"({"usage":{"input_tokens":709,"output_tokens":1,"input_tokens_details":{"cached_tokens":700}}})");
  ASSERT_TRUE(response);
  EXPECT_EQ(response->cached, 700U);
  EXPECT_EQ(response->computed, 9U);
  EXPECT_FALSE(find_usage(R"({"usage":{"input_tokens":5,"input_tokens_details":{"cached_tokens":6}}})"));
  EXPECT_FALSE(find_usage(R"({"usage":{"output_tokens":5}})"));
}

}  // namespace
}  // namespace artesian
