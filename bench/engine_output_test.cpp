#include "bench/engine_output.h"

#include <gtest/gtest.h>

namespace artesian::bench {
namespace {

// As llama-completion of llama.cpp 0.6 prints it.
constexpr std::string_view recorded = R"(0.00.547.938 I
0.07.218.291 I common_perf_print:    sampling time =      10.51 ms
0.07.218.322 I common_perf_print:        load time =     398.69 ms
0.07.218.328 I common_perf_print: prompt eval time =    1579.41 ms /   244 tokens (    6.47 ms per token,   154.49 tokens per second)
0.07.218.334 I common_perf_print:        eval time =    5072.99 ms /    63 runs   (   80.52 ms per token,    12.42 tokens per second)
0.07.218.340 I common_perf_print:       total time =    6671.81 ms /   307 tokens
artesian: 309 tokens: 28.9 % hits, 8.30 GB read at 2.14 GB/s, 3.55 s stalled, 302.4 MiB of 310.4 MiB used
)";

TEST(EngineOutput, ReadsWhatTheEngineSays) {
  const auto timings = parse_timings(recorded);
  ASSERT_TRUE(timings) << timings.error().message;
  EXPECT_EQ(timings->prompt_tokens, 244U);
  EXPECT_DOUBLE_EQ(timings->prompt_seconds, 1.57941);
  EXPECT_EQ(timings->decode_tokens, 63U);
  EXPECT_DOUBLE_EQ(timings->decode_seconds, 5.07299);
  EXPECT_NEAR(timings->prompt_rate(), 154.49, 0.01);
  EXPECT_NEAR(timings->decode_rate(), 12.42, 0.01);
}

TEST(EngineOutput, ReadsOlderPrefixesAndASingleToken) {
  const auto timings = parse_timings(
      "llama_perf_context_print: prompt eval time =      91.20 ms /    16 tokens (    5.70 ms per token, 175.44 tokens "
      "per second)\n"
      "llama_perf_context_print:        eval time =       0.00 ms /     1 runs   (    0.00 ms per token,      inf "
      "tokens per second)");
  ASSERT_TRUE(timings) << timings.error().message;
  EXPECT_EQ(timings->prompt_tokens, 16U);
  EXPECT_EQ(timings->decode_tokens, 1U);
  EXPECT_EQ(timings->decode_rate(), 0);  // no time was taken: nothing was measured
}

TEST(EngineOutput, TheLastLinesCount) {
  const std::string twice =
      std::string(recorded) + "prompt eval time = 1000 ms / 10 tokens\neval time = 2000 ms / 20 runs";
  EXPECT_EQ(parse_timings(twice)->prompt_tokens, 10U);
  EXPECT_EQ(parse_timings(twice)->decode_tokens, 20U);
}

TEST(EngineOutput, SaysWhatIsMissing) {
  EXPECT_NE(parse_timings("").error().message.find("prompt eval time"), std::string::npos);
  const auto no_decode = parse_timings("prompt eval time = 1579.41 ms / 244 tokens\n");
  ASSERT_FALSE(no_decode);
  EXPECT_NE(no_decode.error().message.find("\"eval time ="), std::string::npos);
  EXPECT_EQ(no_decode.error().code, Code::corrupt);
  for (const char* bad : {"eval time =", "eval time = x ms / 3 runs", "eval time = 5 s / 3 runs", "eval time = 5 ms",
                          "eval time = -5 ms / 3 runs", "eval time = 5 ms / -3 runs"}) {
    EXPECT_FALSE(parse_timings(std::string("prompt eval time = 1 ms / 2 tokens\n") + bad)) << bad;
  }
}

}  // namespace
}  // namespace artesian::bench
