#include "bench/route_trace.h"

#include <gtest/gtest.h>

#include <fstream>
#include <set>

namespace artesian::bench {
namespace {

constexpr const char* head =
    "# route_trace v1\n"
    "# model=/m.gguf arch=x n_layer=2 n_expert=4 n_expert_used=2\n"
    "# layer=0 expert_bytes=100 dense_bytes=1\n"
    "# layer=1 expert_bytes=200 dense_bytes=1\n"
    "turn,phase,step,layer,slot,expert,weight,residency,expert_bytes\n";

class RouteTraceFile : public testing::Test {
 protected:
  Result<RouteTrace> read(const std::string& text) {
    const std::filesystem::path file =
        std::filesystem::path(testing::TempDir()) /
        (std::string("route_trace_") + testing::UnitTest::GetInstance()->current_test_info()->name() + ".route.csv");
    std::ofstream(file, std::ios::binary) << text;
    auto trace = read_route_trace(file);
    std::filesystem::remove(file);
    return trace;
  }

  void expect_broken(const std::string& text, const std::string& what) {
    const auto trace = read(text);
    ASSERT_FALSE(trace) << text;
    EXPECT_EQ(trace.error().code, Code::corrupt);
    EXPECT_NE(trace.error().message.find(what), std::string::npos) << trace.error().message;
  }
};

TEST_F(RouteTraceFile, DecodeRowsAreKeptByLayerAndPrefillIsNot) {
  const auto trace = read(std::string(head) +
                          "0,0,0,0,0,3,0.5,0,100\n0,0,0,0,1,2,0.5,0,100\n"
                          "0,1,1,0,0,1,0.5,0,100\n0,1,1,0,1,0,0.5,0,100\n0,1,1,1,0,2,0.5,0,0\n0,1,1,1,1,3,0.5,0,0\r\n"
                          "0,1,2,0,0,1,0.5,0,100\n0,1,2,0,1,3,0.5,0,100\n0,1,2,1,0,2,0.5,0,0\n0,1,2,1,1,0,0.5,0,0\n");
  ASSERT_TRUE(trace) << trace.error().message;
  EXPECT_EQ(trace->decode_steps, 2U);
  EXPECT_EQ(trace->decode[0], (std::vector<ExpertIndex>{1, 0, 1, 3}));
  EXPECT_EQ(trace->decode[1], (std::vector<ExpertIndex>{2, 3, 2, 0}));
  EXPECT_EQ(trace->layers[1].expert_bytes, 200U);
  EXPECT_EQ(trace->layers[0].experts, 4U);
  EXPECT_EQ(trace->layers[0].used, 2U);
}

TEST_F(RouteTraceFile, BrokenFilesSayWhere) {
  expect_broken("", "no header line");
  expect_broken(std::string(head), "no decode rows");
  expect_broken("# model=m n_layer=2 n_expert=4 n_expert_used=5\n", "line 1");
  expect_broken("# model=m n_layer=99999999999 n_expert=4 n_expert_used=2\n", "line 1");
  expect_broken("# model=m n_layer=1 n_expert=4 n_expert_used=1\n0,1,0,0,0,1,1,0,0\n",
                "no header line gives expert_bytes of layer 0");
  expect_broken("0,1,0,0,0,1,1,0,0\n", "layer 0 of 0");
  expect_broken(std::string(head) + "0,1,1,0,0,-1,0.5,0,100\n", "line 6: six numbers");
  expect_broken(std::string(head) + "0,1,1,0\n", "line 6: six numbers");
  expect_broken(std::string(head) + "0,1,1,2,0,1,0.5,0,100\n", "line 6: layer 2 of 2");
  expect_broken(std::string(head) + "0,1,1,0,0,4,0.5,0,100\n", "line 6: expert 4 of 4");
  expect_broken(std::string(head) + "0,1,1,0,1,1,0.5,0,100\n", "line 6: slot 1 where 0 was due");
  expect_broken(std::string(head) + "0,1,1,0,0,1,0.5,0,1\n0,1,1,0,1,1,0.5,0,1\n", "line 7: expert 1 twice");
  expect_broken(std::string(head) + "0,1,1,0,0,1,0.5,0,1\n0,1,2,0,1,2,0.5,0,1\n", "line 7: step 2 inside step 1");
  expect_broken(std::string(head) + "0,1,1,0,0,1,0.5,0,1\n0,1,1,0,1,2,0.5,0,1\n", "layer 1 has 0 decode rows");
}

TEST(RouteTrace, AMissingFileIsNotFound) {
  EXPECT_EQ(read_route_trace("/nowhere/a.route.csv").error().code, Code::not_found);
}

TEST(RouteTrace, FlatRoutesAreDistinctWithinAStepAndUseEveryExpertAlike) {
  const RouteTrace trace = flat_route_trace(2, 16, 4, 4000, 3);
  ASSERT_EQ(trace.decode.size(), 2U);
  EXPECT_NE(trace.decode[0], trace.decode[1]);
  for (const auto& uses : trace.decode) {
    ASSERT_EQ(uses.size(), 16'000U);
    std::vector<int> count(16);
    for (std::size_t at = 0; at < uses.size(); at += 4) {
      EXPECT_EQ(
          std::set<ExpertIndex>(uses.begin() + static_cast<long>(at), uses.begin() + static_cast<long>(at) + 4).size(),
          4U);
      for (std::size_t i = 0; i < 4; ++i) ++count[uses[at + i]];
    }
    for (const int uses_of_one : count) EXPECT_NEAR(uses_of_one, 1000, 120);
  }
}

}  // namespace
}  // namespace artesian::bench
