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
  EXPECT_EQ(post("/v1/responses", R"({"input":"x"})").kind, PromptKind::pinned);
  EXPECT_EQ(post("/v1/messages", R"({"messages":[]})").kind, PromptKind::unpinned);
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

TEST(Prompt, NeverFailsOnABadBody) {
  for (const auto* body : {"", "{", "[]", "7", R"({"messages":7})", R"({"messages":[7]})", "\xff\xfe"}) {
    const auto kind = post("/v1/chat/completions", body).kind;
    EXPECT_TRUE(kind == PromptKind::none || kind == PromptKind::unpinned) << body;
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

}  // namespace
}  // namespace artesian
