// A model server on a simulated drive: small traces, everything compared.
#include "sim/serving.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/units.h"

namespace artesian::sim {
namespace {

class ServingTest : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::filesystem::path(testing::TempDir()) /
              ("serving." + std::string(testing::UnitTest::GetInstance()->current_test_info()->name()));
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_);
    std::ofstream trace(folder_ / "trace.jsonl");  // four conversations that go on and on, one every 2 s
    for (int i = 0; i < 24; ++i) {
      const int turn = i / 4 + 1;
      trace << R"({"timestamp": )" << 2000 * i << R"(, "input_length": )" << 512 * turn + 100
            << R"(, "output_length": 50, "hash_ids": [)";
      for (int block = 0; block < turn; ++block) trace << 100 * (i % 4) + block << ", ";
      trace << 100 * (i % 4) + 50 + turn << "]}\n";  // the end of a prompt, which nobody else has
    }
    std::ofstream routes(folder_ / "small.route.csv");
    routes << "# model=m n_layer=4 n_expert=16 n_expert_used=2\n";
    for (int layer = 0; layer < 4; ++layer) routes << "# layer=" << layer << " expert_bytes=196608 dense_bytes=1\n";
    routes << "turn,phase,step,layer,slot,expert,weight\n";
    for (int step = 0; step < 12; ++step) {
      for (int layer = 0; layer < 4; ++layer) {
        const int first = (step * 3 + layer) % 16;
        routes << "0,1," << step << ',' << layer << ",0," << first << ",1\n";
        routes << "0,1," << step << ',' << layer << ",1," << (first + 5) % 16 << ",1\n";
      }
    }
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static constexpr std::string_view kv = "[kv]\ntrace = trace.jsonl\n";
  static constexpr std::string_view experts = "[experts]\nroutes = small.route.csv\ncycles = 2\nprompt = 100\n";

  Result<nand::RunReport> run(const std::string& sections, std::string_view profile = "enterprise-tlc",
                              std::string_view drive = "capacity = 2G\n") {
    const std::string text = "[drive]\nfill = 0\n" + std::string(drive) +
                             "[model]\nprefill = 1000\ndecode = 100\nkv_token = 1K\nwatts = 100\nusd_per_hour = 1\n" +
                             sections;
    const auto workload = nand::parse_workload(text, "w.ini");
    if (!workload) return fail(workload.error());
    return run_any(*nand::shipped_profile(profile), *workload, folder_);
  }

  std::filesystem::path folder_;
};

TEST_F(ServingTest, BlocksComeBackAndSavePrefill) {
  const auto report = run(std::string(kv));
  ASSERT_TRUE(report) << report.error().message;
  ASSERT_TRUE(report->tokens);
  const nand::TokenReport& tokens = *report->tokens;
  EXPECT_EQ(tokens.first_token.count(), 24U);
  EXPECT_EQ(tokens.prompt_tokens, 4U * (512 * 21 + 600));
  EXPECT_EQ(tokens.output_tokens, 24U * 50);
  // All turns but the first find all but their last block.
  EXPECT_EQ(tokens.blocks_checked, 4U * 15);
  EXPECT_EQ(tokens.reused_tokens, 4U * 15 * 512);
  EXPECT_DOUBLE_EQ(tokens.machine_seconds, static_cast<double>(tokens.prompt_tokens - tokens.reused_tokens) / 1000);
  EXPECT_GT(tokens.store_written, 4U * 6 * 512 * KiB);
  EXPECT_GT(report->counters.host_written_bytes, tokens.store_written / 2);
  const nand::TokenCost cost = report->cost();
  EXPECT_GT(cost.drive_usd, 0);
  EXPECT_NEAR(cost.machine_usd, tokens.machine_seconds / 3600 / (tokens.tokens() * 1e-6), 1e-9);
  EXPECT_NEAR(cost.machine_joules, tokens.machine_seconds * 100 / (tokens.tokens() * 1e-6), 1e-6);
}

TEST_F(ServingTest, ExpertsComeThroughTheLoaderAndASlowDriveIsSlower) {
  const auto fast = run(std::string(experts), "xlflash-slc"), slow = run(std::string(experts), "capacity-qlc");
  ASSERT_TRUE(fast) << fast.error().message;
  ASSERT_TRUE(slow) << slow.error().message;
  EXPECT_EQ(fast->tokens->decoded_tokens, 12U);
  EXPECT_GE(fast->tokens->weights_checked, 4U * 16 * 196608) << "the prompt touches all of them";
  EXPECT_LT(fast->tokens->decode_rate(), 100.0) << "compute alone";
  EXPECT_GT(fast->tokens->decode_rate(), slow->tokens->decode_rate());
  EXPECT_LT(fast->tokens->first_token.mean(), slow->tokens->first_token.mean());
}

TEST_F(ServingTest, BothShareADriveAndOneSeedGivesOneResult) {
  const std::string both = std::string(kv) + std::string(experts);
  const auto first = run(both), again = run(both), other = run(both, "enterprise-tlc", "capacity = 2G\nseed = 2\n");
  ASSERT_TRUE(first) << first.error().message;
  ASSERT_TRUE(again && other);
  EXPECT_EQ(first->tokens->first_token.count(), 25U);
  EXPECT_EQ(first->tokens->decoded_tokens, 12U);
  EXPECT_EQ(first->tokens->blocks_checked, 4U * 15);
  EXPECT_EQ(first->json(), again->json());
  EXPECT_FALSE(first->samples.empty());
}

TEST_F(ServingTest, TroubleIsOneSentence) {
  const auto refused = [&](const std::string& sections, std::string_view drive, std::string_view message) {
    const auto report = run(sections, "enterprise-tlc", drive);
    ASSERT_FALSE(report) << sections;
    EXPECT_NE(report.error().message.find(message), std::string::npos) << report.error().message;
  };
  refused("[kv]\ntrace = none.jsonl\n", "", "none.jsonl: cannot be read as a trace");
  std::ofstream(folder_ / "bad.jsonl") << R"({"timestamp": 0, "input_length": 513, "hash_ids": [1]})" << "\n";
  refused("[kv]\ntrace = bad.jsonl\n", "", "bad.jsonl: line 1: 1 ids for 513 tokens");
  refused("[kv]\ntrace = trace.jsonl\nstore = 8G\n", "capacity = 2G\n", "experts and store of 8.59 GB do not fit");
  refused("[kv]\ntrace = trace.jsonl\n[reads]\nrw = read\n", "", "w.ini:11: flows do not go with a trace or routes");
}

TEST_F(ServingTest, ADriveThatWearsOutEndsTheRunWithAReport) {
  nand::Profile profile = *nand::shipped_profile("970pro");
  profile.pe_cycles = 2;
  std::ofstream trace(folder_ / "long.jsonl");  // writes the drive several times
  for (int i = 0; i < 300; ++i) {
    trace << R"({"timestamp": )" << 20 * i << R"(, "input_length": 512, "output_length": 1, "hash_ids": [)" << i
          << "]}\n";
  }
  trace.close();
  const auto workload = nand::parse_workload(
      "[drive]\nfill = 0\ncapacity = 64M\n[model]\nkv_token = 2K\n[kv]\ntrace = long.jsonl\n", "w.ini");
  ASSERT_TRUE(workload);
  const auto report = run_any(profile, *workload, folder_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->worn_out);
  EXPECT_GT(report->tokens->first_token.count(), 50U);
  EXPECT_LT(report->tokens->first_token.count(), 300U);
}

}  // namespace
}  // namespace artesian::sim
