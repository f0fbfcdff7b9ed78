#include "bench/device_measure.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "platform/clock.h"

namespace artesian::bench {
namespace {

namespace fs = std::filesystem;

class DeviceBench : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "artesian-bench-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
  }
  void TearDown() override { fs::remove_all(folder_); }

  DeviceBenchOptions quick(const std::string& path) const {
    DeviceBenchOptions options;
    options.path = path;
    options.scratch_bytes = 1 * MiB - 100;  // becomes whole blocks
    options.seconds = 0.02;
    options.request_bytes = {16 * KiB, 2 * MiB};  // the second does not fit
    options.depths = {1, 3};
    return options;
  }
  std::string make_file() const {
    const std::string path = folder_ + "/file";
    std::ofstream(path) << std::string(1 * MiB, 'x');
    return path;
  }
  static std::string content(const std::string& path) {
    std::ifstream file(path);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  std::string folder_;
  SteadyClock clock_;
};

TEST_F(DeviceBench, AScratchFileIsWrittenReadAndGone) {
  for (const std::string& path : {folder_, folder_ + "/new"}) {
    DeviceBenchOptions options = quick(path);
    double last = 0;
    std::vector<std::string> told;
    options.progress = [&](double part, std::string_view what) {
      if (told.empty() || told.back() != what) told.emplace_back(what);
      last = part;
    };
    const auto report = measure_device(options, clock_);
    ASSERT_TRUE(report) << report.error().message;
    EXPECT_TRUE(report->scratch);
    EXPECT_EQ(report->path, folder_);
    EXPECT_EQ(report->file_bytes, 1 * MiB);
    ASSERT_EQ(report->points.size(), 4U);
    EXPECT_NE(best_point(report->points, IoOp::read), nullptr);
    EXPECT_NE(best_point(report->points, IoOp::write), nullptr);
    EXPECT_EQ(last, 1.0);
    EXPECT_EQ(told.front(), "writing the scratch file");
    EXPECT_TRUE(fs::is_empty(folder_));
  }
}

TEST_F(DeviceBench, AFileIsWrittenOnlyWhenToldTo) {
  const std::string path = make_file();
  const std::string before = content(path);
  DeviceBenchOptions options = quick(path);
  auto report = measure_device(options, clock_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_FALSE(report->scratch);
  EXPECT_EQ(best_point(report->points, IoOp::write), nullptr);
  EXPECT_TRUE(content(path) == before);
  options.overwrite = true;
  report = measure_device(options, clock_);
  ASSERT_TRUE(report) << report.error().message;
  EXPECT_NE(best_point(report->points, IoOp::write), nullptr);
  EXPECT_EQ(fs::file_size(path), before.size());
  EXPECT_TRUE(content(path) != before);
}

TEST_F(DeviceBench, SaysWhatCannotBeMeasured) {
  const auto error = [&](const DeviceBenchOptions& options) { return measure_device(options, clock_).error(); };
  EXPECT_EQ(error(quick("/dev/null")).code, Code::invalid);
  EXPECT_EQ(error(quick(folder_ + "/no/such")).code, Code::not_found);
  DeviceBenchOptions options = quick(folder_ + "/new");
  options.overwrite = true;
  EXPECT_EQ(error(options).code, Code::not_found);
  options = quick(folder_);
  options.scratch_bytes = 4096 * TiB;
  EXPECT_THAT(error(options).message, testing::HasSubstr("no space for a scratch file of"));
  options = quick(make_file());
  options.request_bytes = {2 * MiB};
  EXPECT_EQ(error(options).code, Code::invalid);
}

DeviceReport known_report() {
  DeviceReport report;
  report.path = "/data/\xff";
  report.file_bytes = 1 * GiB;
  report.version = "1.2, commit 3";
  report.engine = "io_uring";
  report.direct = report.huge_pages = true;
  report.placement = "8 write streams";
  report.storage.file_system = "ext4";
  for (const double speed : {1e9, 3e9, 2e9}) {
    report.points.push_back({.op = IoOp::read,
                             .request_bytes = 512 * KiB,
                             .depth = static_cast<std::uint32_t>(report.points.size() + 1),
                             .bytes_per_second = speed,
                             .iops = 100,
                             .p50_us = 10,
                             .p99_us = 20});
  }
  return report;
}

TEST(DeviceReport, TextNamesTheBestPointAndHowItWasMeasured) {
  const std::string text = device_text(known_report());
  EXPECT_THAT(text, testing::HasSubstr("ext4\nio_uring, direct; large pages, not registered; 8 write streams\n"));
  EXPECT_THAT(text, testing::HasSubstr("best read  512.0 KiB      2    3.00 GB/s\n"));
  EXPECT_THAT(text, testing::HasSubstr("; artesian 1.2, commit 3\n"));
  EXPECT_THAT(text, testing::Not(testing::HasSubstr("best write")));
}

TEST(DeviceReport, JsonHasEveryPoint) {
  const auto json = nlohmann::json::parse(device_json(known_report()));
  EXPECT_EQ(json["points"].size(), 3U);
  EXPECT_EQ(json["best_read"]["depth"], 2);
  EXPECT_EQ(json["points"][2]["latency_us_p99"], 20.0);
  EXPECT_EQ(json["storage"]["file_system"], "ext4");
  EXPECT_FALSE(json.contains("best_write"));
}

}  // namespace
}  // namespace artesian::bench
