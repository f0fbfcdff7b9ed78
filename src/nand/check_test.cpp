// The table of `artesian nand check` on smaller drives: every row has to be met. What the rows mean is in check.cpp.
#include "nand/check.h"

#include <gtest/gtest.h>

namespace artesian::nand {
namespace {

using Group = void (*)(std::vector<CheckRow>&, const CheckOptions&);

void expect_met(Group group) {
  std::vector<CheckRow> rows;
  group(rows, {.quick = true});
  EXPECT_FALSE(rows.empty());
  for (const CheckRow& row : rows) {
    EXPECT_TRUE(!row.judged || row.met) << row.name << ": " << row.what << ": " << row.figure << " beside "
                                        << row.reference << " " << row.unit << ", " << row.goal << "; " << row.note;
  }
}

TEST(NandCheck, WriteAmplificationIsWhatTheClosedFormSays) {
  expect_met(check_write_amplification);
}
TEST(NandCheck, HotAndColdApartWriteWhatTheirClosedFormsSay) {
  expect_met(check_hot_and_cold);
}
TEST(NandCheck, SequentialAndTrimmedAreExactAndTheBooksBalance) {
  expect_met(check_exact);
}
TEST(NandCheck, MqsimsScenarioIsMet) {
  expect_met(check_mqsim);
}
TEST(NandCheck, EveryProfileReachesItsCeilings) {
  expect_met(check_ceilings);
}
TEST(NandCheck, ClassesAreWhatIsPublished) {
  expect_met(check_classes);
}
TEST(NandCheck, DemandReadsWaitForASuspendAndATransferAtMost) {
  expect_met(check_priorities);
}

TEST(NandCheck, AMissShows) {
  const std::vector<CheckRow> rows{{.name = "a", .figure = 2, .reference = 1, .met = false},
                                   {.name = "b", .figure = 1, .reference = 1}};
  EXPECT_NE(check_table(rows).find("MISSED"), std::string::npos);
  EXPECT_NE(check_table(rows).find("1 of 2 goals met"), std::string::npos);
  EXPECT_NE(check_json(rows).find("\"deviation\": 1.0"), std::string::npos);
}

}  // namespace
}  // namespace artesian::nand
