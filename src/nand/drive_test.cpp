#include "nand/drive.h"

#include <gtest/gtest.h>

#include "base/units.h"
#include "nand/flows.h"
#include "nand/measures.h"
#include "nand/tiny_test.h"

namespace artesian::nand {
namespace {

std::vector<HostCompletion> drained(Drive& drive) {
  drive.run_until_idle();
  return std::exchange(drive.completions(), {});
}

TEST(Drive, AReadAloneTakesTheSumOfItsParts) {
  Drive drive(tiny());
  drive.fill(0, drive.layout().logical_units);
  drive.submit({.offset = 4096 * 100, .bytes = 4096, .tag = 7});
  const auto done = drained(drive);
  ASSERT_EQ(done.size(), 1U);
  EXPECT_EQ(done[0].tag, 7U);
  // submit, command, firmware, sense, 4,096 bytes over channel and link, complete
  EXPECT_EQ(done[0].at, 1000 + 1 + 3000 + 50000 + 4096 + 1024 + 1000);
}

TEST(Drive, ReadsOfTwoLanesOfADieOverlapAndOfOneLaneDoNot) {
  Drive drive(tiny());
  drive.fill(0, 64);
  const Layout& layout = drive.layout();
  const auto place = [&](std::uint32_t unit) { return layout.place_of(drive.ftl().lookup(unit), CellMode::native); };
  ASSERT_EQ(place(0).die, place(1).die);
  ASSERT_NE(place(0).lane, place(1).lane);
  ASSERT_EQ(place(0).die, place(8).die);
  ASSERT_EQ(place(0).lane, place(8).lane);
  const auto both = [&](std::uint64_t other) {
    const Time start = drive.now();
    drive.submit({.offset = 0, .bytes = 4096});
    drive.submit({.offset = other * 4096, .bytes = 4096});
    return drained(drive).back().at - start;
  };
  const Time apart = both(1), same = both(8);
  EXPECT_LT(apart, 70'000);
  EXPECT_GT(same, 105'000);
}

TEST(Drive, AWriteIsDoneWhenItIsBufferedAndIsReadFromThere) {
  Drive drive(tiny());
  drive.submit({.op = HostOp::write, .offset = 0, .bytes = 4096});
  EXPECT_LT(drained(drive)[0].at, 10'000);  // a program takes 500 us
  const Time start = drive.now();
  drive.submit({.offset = 0, .bytes = 4096});
  EXPECT_LT(drained(drive)[0].at - start, 10'000);
  EXPECT_EQ(drive.counters().buffer_hits, 1U);
  EXPECT_EQ(drive.counters().media_written_bytes, 0U);
}

TEST(Drive, AFullBufferSlowsWritesToTheSpeedOfTheDies) {
  Drive drive(tiny());
  const auto run =
      run_flows(drive, {{.reads = 0, .access = Access::sequential, .depth = 128, .requests = 1000}}, INT64_MAX, 200);
  // four dies program two pages in 500 us
  EXPECT_NEAR(run[0].bytes_per_second(), 4 * 2 * 4096 / 500e-6, 0.03 * 4 * 2 * 4096 / 500e-6);
}

TEST(Drive, FlushWaitsForFlashWithoutPowerLossProtection) {
  for (const bool protectedd : {true, false}) {
    Profile p = tiny();
    p.power_loss_protection = protectedd;
    Drive drive(p);
    drive.submit({.op = HostOp::write, .offset = 0, .bytes = 4096});
    drained(drive);
    const Time start = drive.now();
    drive.submit({.op = HostOp::flush});
    const Time took = drained(drive)[0].at - start;
    if (protectedd) {
      EXPECT_LT(took, 10'000);
    } else {
      EXPECT_GT(took, 500'000);
      EXPECT_EQ(drive.counters().media_written_bytes, 8192U);  // padded to a program unit
    }
  }
}

TEST(Drive, QueuesOfAClassAreServedInTurn) {
  Profile p = tiny();
  p.queue_depth = 1;
  p.queues = 2;
  Drive drive(p);
  std::vector<HostRequest> batch;
  for (std::uint64_t i = 0; i < 4; ++i) batch.push_back({.queue = 0, .offset = 0, .bytes = 4096, .tag = i});
  for (std::uint64_t i = 4; i < 6; ++i) batch.push_back({.queue = 1, .offset = 0, .bytes = 4096, .tag = i});
  drive.submit(batch);
  std::vector<std::uint64_t> tags;
  for (const auto& done : drained(drive)) tags.push_back(done.tag);
  EXPECT_EQ(tags, (std::vector<std::uint64_t>{0, 4, 1, 5, 2, 3}));
}

TEST(Drive, ASuspendedProgramTakesItsTimeAndTheResumeOnTop) {
  Profile p = tiny();
  p.suspend = Suspend::program_erase;
  p.suspend_us = 10;
  p.resume_us = 5;
  p.buffer_bytes = 64 * 4096;
  Drive drive(p);
  drive.fill(0, 64);
  for (std::uint64_t i = 64; i < 72; ++i) {  // one program on each die
    drive.submit({.op = HostOp::write, .io_class = IoClass::write, .offset = i * 4096, .bytes = 4096});
  }
  drive.run_until(200'000);
  drive.completions().clear();
  drive.submit({.offset = 0, .bytes = 4096});
  const auto done = drained(drive);
  EXPECT_EQ(done.back().at - done.back().submitted, 1000 + 1 + 3000 + 10'000 + 50'000 + 4096 + 1024 + 1000);
  EXPECT_EQ(drive.counters().suspends, 1U);
}

TEST(Drive, AnEraseThatWaitedLongStillGivesWayToReads) {
  Profile p = tiny();
  p.suspend = Suspend::program_erase;
  p.suspend_us = 20;
  p.starvation_us = 3000;  // erases wait longer than that behind programs
  Drive drive(p);
  drive.fill(0, drive.layout().logical_units);
  drive.reset_counters();
  const std::uint64_t half = p.capacity_bytes / 2 / 65536 * 65536;
  const auto runs = run_flows(drive,
                              {{.length = half, .depth = 1, .requests = 4000},
                               {.reads = 0,
                                .bytes = 65536,
                                .access = Access::sequential,
                                .first = half,
                                .length = half,
                                .depth = 16,
                                .io_class = IoClass::write}},
                              INT64_MAX);
  EXPECT_GT(drive.ftl().erases(), 4U);
  // Alone 64 us; a suspend, a copy's transfer, and another read of the die.
  EXPECT_LT(runs[0].reads.percentile(0.999), from_us(64 + 20 + 60));
}

TEST(Drive, RetriesGrowWithWearAndAge) {
  Profile p = tiny();
  p.retries_worn = 2;
  p.retries_per_month = 1;
  const auto mean = [&](double wear, double months) {
    Drive drive(p);
    drive.fill(0, drive.layout().logical_units);
    drive.wear(wear);
    drive.age(months);
    return run_flows(drive, {{.requests = 500}}, INT64_MAX)[0].reads.mean();
  };
  const double fresh = mean(0, 0), worn = mean(1, 0), old = mean(1, 3);
  EXPECT_NEAR(worn - fresh, 2 * 50'000, 2'000);
  EXPECT_NEAR(old - worn, 3 * 50'000, 3'000);
  EXPECT_NEAR(mean(0.5, 0) - fresh, 0.5 * 50'000, 8'000);  // squared
}

TEST(Drive, ACachedMapCostsAReadAMiss) {
  Profile p = tiny();
  p.page_bytes = p.map_unit_bytes = 512;  // 128 entries a page of the map
  p.capacity_bytes = p.physical_bytes() * 3 / 4 / 512 * 512;
  p.buffer_bytes = 64 * 512;
  const auto mean = [&](std::uint64_t slots) {
    p.map_cache_bytes = slots * 512;
    Drive drive(p);
    drive.fill(0, drive.layout().logical_units);
    drive.reset_counters();
    const auto run = run_flows(drive, {{.bytes = 512, .requests = 2000}}, INT64_MAX);
    return std::pair(run[0].reads.mean(), drive.counters().map_misses);
  };
  const auto [whole, none_missed] = mean(0);
  const auto [cached, missed] = mean(9);  // half of 18 pages of the map
  EXPECT_EQ(none_missed, 0U);
  EXPECT_NEAR(static_cast<double>(missed), 1000, 100);
  EXPECT_NEAR(cached - whole, 0.5 * 50'500, 4'000);
}

TEST(Drive, PslcTakesWritesFasterAndFoldsThemWhenItHasTime) {
  Profile p = tiny();
  p.bits_per_cell = 3;
  p.read_us = {50, 50, 50};
  p.program_us = 3000;
  p.slc_program_us = 200;
  p.pslc_superblocks = 6;
  p.capacity_bytes = p.physical_bytes() / 2;
  Drive drive(p);
  const std::uint64_t slc_units = 4 * drive.layout().slc.grains;
  const auto run =
      run_flows(drive, {{.reads = 0, .access = Access::sequential, .depth = 64, .requests = slc_units}}, INT64_MAX, 64);
  EXPECT_NEAR(run[0].bytes_per_second(), 4 * 2 * 4096 / 200e-6, 0.1 * 4 * 2 * 4096 / 200e-6);
  drive.run_until_idle();
  const auto& streams = drive.counters().programmed_bytes;
  EXPECT_GT(streams[static_cast<std::size_t>(Stream::fold)], 2 * drive.layout().slc.grains * 4096U);
  EXPECT_LE(drive.ftl().pslc_in_use(), 1U);
}

// One-bit mode would take more than all the spare space.
TEST(Drive, AFullDriveHasTheSpaceOfPslcBackAndGoesOn) {
  Profile p = tiny();
  p.bits_per_cell = 3;
  p.read_us = {50, 50, 50};
  p.pslc_superblocks = 24;
  p.capacity_bytes = p.physical_bytes() * 3 / 4;
  for (const bool filled_at_once : {true, false}) {
    Drive drive(p);
    const std::uint64_t units = drive.layout().logical_units;
    if (filled_at_once) drive.fill(0, units);
    run_flows(drive, {{.reads = 0, .access = Access::sequential, .depth = 32, .requests = units}}, INT64_MAX);
    const auto run = run_flows(drive, {{.reads = 0, .depth = 16, .requests = 2 * units}}, INT64_MAX);
    EXPECT_EQ(run[0].writes.count(), 2 * units);
    EXPECT_EQ(run[0].failed, 0U);
    EXPECT_FALSE(drive.ftl().worn_out());
    EXPECT_LT(drive.ftl().pslc_in_use(), p.pslc_superblocks);
  }
}

TEST(Drive, HandlesKeepDataApartAndTheStatisticsAddUp) {
  Profile p = tiny();
  p.placement_handles = 2;
  p.isolation = Isolation::persistent;
  Drive drive(p);
  run_flows(drive,
            {{.reads = 0, .length = MiB, .depth = 8, .handle = 0, .requests = 4000},
             {.reads = 0, .first = MiB, .length = MiB, .depth = 8, .handle = 1, .requests = 4000}},
            INT64_MAX);
  drive.drain();
  for (std::uint32_t unit = 0; unit < 512; ++unit) {
    const std::uint32_t pua = drive.ftl().lookup(unit);
    if (pua == none) continue;
    EXPECT_EQ(drive.ftl().superblock(drive.layout().superblock_of(pua)).handle, unit / 256) << unit;
  }
  const FdpStatistics fdp = drive.fdp();
  EXPECT_EQ(fdp.host_written, 8000U * 4096);
  EXPECT_EQ(fdp.media_written, drive.counters().appended_bytes());
  EXPECT_GT(fdp.media_erased, 0U);
}

TEST(Drive, StaticLevellingMovesColdDataAndNarrowsWear) {
  const auto spread = [](double limit) {
    Profile p = tiny();
    p.pe_cycles = 200;
    p.wear_spread = limit;
    Drive drive(p);
    const std::uint64_t hot = drive.layout().logical_units / 8;
    drive.fill(0, drive.layout().logical_units);
    run_flows(drive, {{.reads = 0, .length = hot * 4096, .depth = 32, .requests = 150'000}}, INT64_MAX);
    double least = 1;
    for (std::uint32_t i = 0; i < drive.layout().superblocks; ++i) {
      least = std::min(least, static_cast<double>(drive.ftl().superblock(i).wear));
    }
    return drive.ftl().wear_max() - least;
  };
  EXPECT_LT(spread(0.05), 0.12);
  EXPECT_GT(spread(0), 0.3);
}

TEST(Drive, BadBlocksTakeSpareSpaceAndHoldNothing) {
  const auto run = [](double share) {
    Profile p = tiny();
    p.blocks_per_plane = 200;
    p.capacity_bytes = p.physical_bytes() * 3 / 4;
    p.bad_share = share;
    EXPECT_TRUE(check_profile(p));
    Drive drive(p);
    drive.fill(0, drive.layout().logical_units);
    drive.overwrite_at_random(4UL * drive.layout().logical_units);
    std::uint32_t retired = 0;
    for (std::uint32_t i = 0; i < drive.layout().superblocks; ++i) {
      const Superblock& block = drive.ftl().superblock(i);
      if (block.state != BlockState::retired) continue;
      ++retired;
      EXPECT_EQ(block.erases, 0U);
    }
    EXPECT_FALSE(drive.worn_out());
    return std::pair(retired, static_cast<double>(drive.counters().appended_bytes()));
  };
  const auto [none_bad, well] = run(0);
  const auto [bad, worse] = run(0.05);
  EXPECT_EQ(none_bad, 0U);
  EXPECT_GE(bad, 10U);  // of the worst of 8 planes, ten are expected in each
  EXPECT_LT(bad, 30U);
  EXPECT_GT(worse, well * 1.1);
}

TEST(Drive, ADriveThatWearsOutRefusesWritesAndStillReads) {
  Profile p = tiny();
  p.pe_cycles = 20;
  p.wear_spread = 0.1;
  Drive drive(p);
  drive.fill(0, drive.layout().logical_units);
  const auto run = run_flows(drive, {{.reads = 0, .depth = 16, .requests = 200'000}}, INT64_MAX);
  EXPECT_TRUE(drive.worn_out());
  EXPECT_GT(run[0].failed, 0U);
  EXPECT_EQ(run[0].writes.count(), 200'000U);  // every one of them came back
  drive.submit({.offset = 0, .bytes = 4096});
  EXPECT_EQ(drained(drive).size(), 1U);
}

TEST(Drive, OneSeedOneResult) {
  const auto digest = [](std::uint64_t seed) {
    Profile p = tiny();
    p.collection = Collection::d_choices;
    p.retries_fresh = 0.3;
    Drive drive(p, {.seed = seed});
    run_flows(drive, {{.reads = 0.5, .depth = 16, .requests = 20'000}}, INT64_MAX);
    return drive.digest();
  };
  EXPECT_EQ(digest(1), digest(1));
  EXPECT_NE(digest(1), digest(2));
}

TEST(Drive, EnergyIsCountedByOperation) {
  Profile p = tiny();
  p.read_uj = 5;
  p.channel_pj = 10;
  p.link_pj = 20;
  p.idle_w = 2;
  Drive drive(p);
  drive.fill(0, 64);
  drive.submit({.offset = 0, .bytes = 4096});
  drive.run_until_idle();
  const EnergyReport energy = drive.energy();
  EXPECT_DOUBLE_EQ(energy.read_j, 5e-6);
  EXPECT_DOUBLE_EQ(energy.channel_j, 4096 * 10e-12);
  EXPECT_DOUBLE_EQ(energy.link_j, 4096 * 20e-12);
  EXPECT_DOUBLE_EQ(energy.idle_j, 2 * static_cast<double>(drive.now()) * 1e-9);
}

}  // namespace
}  // namespace artesian::nand
