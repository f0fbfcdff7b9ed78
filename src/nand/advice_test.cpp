#include "nand/advice.h"

#include <gtest/gtest.h>

#include <cmath>

namespace artesian::nand {
namespace {

// A drive of 1 TB at that price; its load's first tokens, life and cost of a million tokens.
AdviceInput drive(std::string name, double usd, double first_token_s, double years) {
  AdviceInput input;
  input.profile.name = std::move(name);
  input.profile.usd_per_tb = usd;
  input.profile.capacity_bytes = 1'000'000'000'000;
  RunReport report{.profile = input.profile, .whole_bytes = input.profile.capacity_bytes};
  report.years = years;
  TokenReport tokens{.prompt_tokens = 1'000'000, .machine_seconds = first_token_s * 100, .seconds = 100};
  for (int i = 0; i < 100; ++i) tokens.first_token.add(static_cast<Time>(first_token_s * 1e9));
  report.tokens = tokens;
  report.workload.serving.usd_per_hour = 3.6;
  input.report = std::move(report);
  return input;
}

TEST(Advice, TheCheapestTokensThatLastAndTheNextQuicker) {
  const std::vector<AdviceInput> drives{drive("slow", 50, 3, 10), drive("right", 100, 1, 8), drive("short", 60, 0.9, 1),
                                        drive("quick", 900, 0.5, 30), drive("quickest", 5000, 0.4, INFINITY)};
  const Advice advice = advise(drives, {.budget_usd = 500});
  ASSERT_TRUE(advice.best && advice.better);
  EXPECT_EQ(advice.rows[*advice.best].name, "right") << "the machine's time costs more than the drive";
  EXPECT_EQ(advice.rows[*advice.better].name, "short");
  EXPECT_NE(advice.next.find("it does not fit: it lasts 1 of 5 years"), std::string::npos) << advice.next;
  EXPECT_EQ(advice.rows[3].no, std::vector<std::string>{"costs 900 USD"});
  const Advice rich = advise(drives, {.budget_usd = 1000, .first_token_s = 0.6});
  EXPECT_EQ(rich.rows[*rich.best].name, "quick");
  EXPECT_EQ(rich.rows[*rich.better].name, "quickest");
  EXPECT_NE(rich.next.find("-20.0 % (p50)"), std::string::npos) << rich.next;
}

TEST(Advice, NothingFits) {
  std::vector<AdviceInput> drives{drive("dear", 900, 1, 10)};
  drives.push_back({.profile = drives[0].profile, .report = {}, .why_not = "holds too little"});
  const Advice advice = advise(drives, {.budget_usd = 10});
  EXPECT_FALSE(advice.best || advice.better);
  EXPECT_EQ(advice.why, "no drive fits");
  EXPECT_EQ(advice.rows[1].no, (std::vector<std::string>{"costs 900 USD", "holds too little"}));
  EXPECT_NE(advice_json(advice).find("\"advised\": null"), std::string::npos);
}

}  // namespace
}  // namespace artesian::nand
