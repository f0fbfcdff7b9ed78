#include "nand/workload.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace artesian::nand {
namespace {

constexpr std::string_view mixed = R"([drive]
capacity = 2G      ; a part is enough
fill = 50%
seconds = 0.02
[readers]
rw = randread
bs = 4k
iodepth = 8
size = 50%
[writers]          # beside them
rw = write
bs = 128k
offset = 50%
iodepth = 4
)";

TEST(Workload, AFileIsReadAsItSays) {
  const auto workload = parse_workload(mixed, "mixed.ini");
  ASSERT_TRUE(workload) << workload.error().message;
  EXPECT_EQ(workload->capacity_bytes, 2 * GiB);
  EXPECT_DOUBLE_EQ(workload->fill, 0.5);
  ASSERT_EQ(workload->flows.size(), 2U);
  EXPECT_EQ(workload->flows[0].flow.depth, 8U);
  EXPECT_EQ(workload->flows[1].flow.io_class, IoClass::write);
  EXPECT_EQ(workload->flows[1].flow.access, Access::sequential);
}

TEST(Workload, BadLinesAreRefusedWithFileAndLine) {
  const auto refused = [](std::string_view text, std::string_view message) {
    const auto workload = parse_workload(text, "w.ini");
    ASSERT_FALSE(workload) << text;
    EXPECT_EQ(workload.error().message, message);
  };
  refused("", "w.ini: has no flows, no trace and no routes");
  refused("rw=read", "w.ini:1: is neither a section nor a setting of one");
  refused("[a]\nrw=backwards", "w.ini:2: rw takes one of read, write, rw, randread, randwrite, randrw, not backwards");
  refused("[a]\n\nbs=much", "w.ini:3: bs takes a size, not much");
  refused("[a]\niodepth=0", "w.ini:2: iodepth is 0, which is not between 1 and 1048576");
  refused("[a]\nspeed=1", "w.ini:2: a flow has no speed");
  refused("[drive]\nspeed=1", "w.ini:2: the drive has no speed");
  refused("[drive]\nfill=x", "w.ini:2: fill takes a number, not x");
  refused("[a]\nclass=first", "w.ini:2: class takes one of demand, staged, write, reclaim, not first");
  refused("[]", "w.ini:1: a section is [name]");
  refused("[a]\nburst=1M", "w.ini:1: the flow a has a burst, and says not every how long");
  refused("[a]\nbeam=2", "w.ini:1: the flow a has a beam and no hops");
  refused("[a]\nrw=write\nhint=2", "w.ini:1: the flow a hints at what it writes");
  refused("[a]\nhint=2\nhops=2", "w.ini:1: the flow a has hints and hops: the next hop is not known before");
  refused("[kv]\nblocks=2", "w.ini:2: kv has no blocks");
  refused("[kv]\ntrace=t\n[a]\nrw=read",
          "w.ini:3: flows do not go with a trace or routes; give them a file of their own");
}

TEST(Workload, AModelsFileHasNoOtherSection) {
  Serving serving{.trace = "t"};
  ASSERT_TRUE(parse_model("[model]\nprefill = 7\n", "m.ini", serving));
  EXPECT_EQ(serving.prefill, 7);
  EXPECT_EQ(serving.trace, "t");
  for (const char* other : {"drive", "kv", "experts", "reads"}) {
    const auto parsed = parse_model(fmt::format("[model]\nprefill = 8\n[{}]\n", other), "m.ini", serving);
    ASSERT_FALSE(parsed) << other;
    EXPECT_EQ(parsed.error().message, fmt::format("m.ini:3: only [model] has a place here, not [{}]", other));
    EXPECT_EQ(serving.prefill, 7) << "nothing half done";
  }
}

TEST(Workload, LookupsAndCheckpointsAreTimedAsAWhole) {
  const auto workload = parse_workload(
      "[drive]\ncapacity=2G\nseconds=0.05\n[lookups]\nrw=randread\nbs=4k\nhops=3\nbeam=2\nsize=50%\n"
      "[checkpoints]\nrw=write\nbs=1M\niodepth=2\nburst=4M\nevery=0.02\noffset=50%\n",
      "w.ini");
  ASSERT_TRUE(workload) << workload.error().message;
  const auto report = run_workload(*shipped_profile("enterprise-tlc"), *workload);
  ASSERT_TRUE(report) << report.error().message;
  const FlowResult &lookups = report->flows[0], &checkpoints = report->flows[1];
  EXPECT_GT(lookups.groups.count(), 50U);
  EXPECT_NEAR(static_cast<double>(lookups.reads.count()), 6.0 * static_cast<double>(lookups.groups.count()), 6);
  EXPECT_GE(lookups.groups.least(), 3 * lookups.reads.least()) << "one hop after the other";
  EXPECT_LT(lookups.groups.least(), 6 * lookups.reads.mean()) << "two reads at once";
  EXPECT_EQ(checkpoints.groups.count(), 3U) << "at 0, 20 and 40 ms";
  EXPECT_EQ(checkpoints.written_bytes, 12 * MiB);
}

TEST(Workload, MoreThanTheDriveHoldsIsRefused) {
  const auto profile = shipped_profile("enterprise-tlc");
  const auto refused = [&](std::string_view text) {
    const auto report = run_workload(*profile, *parse_workload(text, "w.ini"));
    ASSERT_FALSE(report);
    EXPECT_EQ(report.error().code, Code::invalid);
    EXPECT_NE(report.error().message.find("w.ini"), std::string::npos) << report.error().message;
  };
  refused("[drive]\ncapacity=100T\n[a]\nrw=read");
  refused("[drive]\ncapacity=2G\n[a]\nrw=read\nsize=1T");
  refused("[drive]\ncapacity=2G\n[a]\nrw=read\noffset=1T");
}

TEST(Workload, ARunGivesTheSameFiguresEveryTimeAndItsReportsHoldThem) {
  const auto profile = shipped_profile("enterprise-tlc");
  const auto workload = parse_workload(mixed, "mixed.ini");
  const auto first = run_workload(*profile, *workload), second = run_workload(*profile, *workload);
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->json(), second->json());
  EXPECT_EQ(first->samples.size(), 100U);
  EXPECT_GT(first->flows[0].reads.count(), 1000U);
  EXPECT_GT(first->flows[1].writes.count(), 100U);
  EXPECT_GT(first->years, 0);
  std::uint64_t sampled = 0;
  for (const FlowResult& flow : first->flows) sampled += flow.read_bytes;
  EXPECT_EQ(sampled, first->counters.host_read_bytes);
  EXPECT_NE(first->text().find("write amplification 1.000"), std::string::npos) << first->text();
  const std::vector<RunReport> reports{*first, *second};
  const std::string page = html_report(reports);
  EXPECT_EQ(page.find("http://"), std::string::npos);  // nothing is fetched
  EXPECT_EQ(page.find("src="), std::string::npos);
  EXPECT_NE(page.find("</html>"), std::string::npos);
  EXPECT_NE(comparison(reports).find("read p99 us"), std::string::npos);
}

TEST(Workload, ADriveThatWearsOutEndsTheRunWithAReport) {
  Profile profile = with_capacity(*shipped_profile("970pro"), 1 * GiB);
  profile.pe_cycles = 2;
  const auto report =
      run_workload(profile, *parse_workload("[drive]\nseconds=100\n[w]\nrw=randwrite\niodepth=64", "w"));
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_TRUE(report->worn_out);
  EXPECT_NE(report->text().find("wore out"), std::string::npos);
}

}  // namespace
}  // namespace artesian::nand
