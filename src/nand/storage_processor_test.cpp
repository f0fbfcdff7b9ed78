// What a storage processor adds to a drive: compression and its map, stripes over dies, tiering by heat, a read cache
// in partitions, and reads that were announced.
#include <gtest/gtest.h>

#include <cstring>
#include <set>

#include "base/units.h"
#include "nand/flows.h"
#include "nand/read_cache.h"
#include "nand/tiny_test.h"

namespace artesian::nand {
namespace {

constexpr Time alone = 1000 + 1 + 3000 + 50'000 + 4096 + 1024 + 1000;  // submit to complete, one page of 4 KiB

Time read_once(Drive& drive, std::uint64_t offset, std::uint64_t bytes) {
  const Time start = drive.now();
  drive.submit({.offset = offset, .bytes = bytes});
  drive.run_until_idle();
  const Time took = drive.completions().back().at - start;
  drive.completions().clear();
  return took;
}

TEST(Compression, AUnitThatShrinksTakesLessFlashAndMovesLess) {
  Profile p = tiny();
  p.compress_grain = 512;
  p.decompress_us = 2;
  Drive drive(p);
  drive.fill_compress(100);  // to one grain
  drive.fill(0, 64);
  const Layout& layout = drive.layout();
  for (std::uint32_t unit = 0; unit < 8; ++unit) {
    EXPECT_EQ(layout.place_of(drive.ftl().lookup(unit), CellMode::native).page, 0U) << "eight units in a page";
  }
  EXPECT_EQ(read_once(drive, 0, 4096), alone - (4096 - 512) + 2000);
}

TEST(Compression, SavesProgramsAndCollectionAndTheBooksBalance) {
  const auto run = [](double ratio) {
    Profile p = tiny();
    p.page_bytes = 16384;  // of several units: where a unit is as large as a page, two that shrink do not share one
    p.buffer_bytes = 64 * 16384;
    p.compress_grain = 512;
    p.capacity_bytes = p.physical_bytes() * 3 / 4;
    Drive drive(p);
    run_flows(drive, {{.reads = 0, .depth = 16, .compress = ratio, .requests = 80'000}}, INT64_MAX);
    drive.drain();
    const DriveCounters c = drive.counters();
    EXPECT_EQ(c.appended_bytes(), c.media_written_bytes);
    EXPECT_EQ(c.programmed_bytes[static_cast<std::size_t>(Stream::host)], c.host_written_bytes - c.saved_bytes);
    return c.write_amplification();
  };
  const double whole = run(1), half = run(2);
  EXPECT_GT(whole, 1.3);
  // Half of eight grains and half a grain; a page that the next unit does not fit into ends early; hardly a copy.
  EXPECT_GT(half, 0.5);
  EXPECT_LT(half, 0.8);
}

TEST(Compression, WhatWasWrittenComesBackThroughCollection) {
  Profile p = tiny();
  p.compress_grain = 512;
  Drive drive(p, {.store_data = true});
  const std::uint32_t units = drive.layout().logical_units;
  std::vector<std::byte> page(4096), out(4096);
  std::vector<std::uint32_t> version(units);
  Random random(3);
  for (std::uint32_t i = 1; i < 6 * units; ++i) {
    const std::uint64_t unit = random.below(units);
    version[unit] = i;
    std::memcpy(page.data() + 8, &i, sizeof i);
    std::memcpy(page.data() + 16, &unit, sizeof unit);
    drive.submit({.op = HostOp::write,
                  .compress = static_cast<float>(1 + random.below(4)),
                  .offset = unit * 4096,
                  .bytes = 4096,
                  .data = page.data()});
    drive.run_until_idle();
  }
  EXPECT_GT(drive.counters().programmed_bytes[static_cast<std::size_t>(Stream::collection)], 0U);
  for (std::uint32_t unit = 0; unit < units; ++unit) {
    if (version[unit] == 0) continue;
    drive.submit({.offset = std::uint64_t{unit} * 4096, .bytes = 4096, .data = out.data()});
    drive.run_until_idle();
    std::uint32_t found = 0;
    std::memcpy(&found, out.data() + 8, sizeof found);
    ASSERT_EQ(found, version[unit]) << unit;
  }
}

TEST(Compression, LargerEntriesOfTheMapMissMoreOften) {
  const auto missed = [](std::uint64_t entry) {
    Profile p = tiny();
    p.page_bytes = p.map_unit_bytes = 512;
    p.capacity_bytes = p.physical_bytes() * 3 / 4 / 512 * 512;
    p.buffer_bytes = 64 * 512;
    p.map_cache_bytes = 9 * 512;  // half of the map with entries of four bytes
    p.map_entry_bytes = entry;
    Drive drive(p);
    drive.fill(0, drive.layout().logical_units);
    drive.reset_counters();
    run_flows(drive, {{.bytes = 512, .requests = 2000}}, INT64_MAX);
    return static_cast<double>(drive.counters().map_misses);
  };
  EXPECT_NEAR(missed(4), 1000, 100);
  EXPECT_NEAR(missed(8), 1500, 100);
}

TEST(Stripes, EveryGrainHasAPlaceOfItsOwnAndProgramUnitsEndOnce) {
  for (const std::uint64_t stripe : {1, 2, 4}) {
    Profile p = tiny();
    p.bits_per_cell = 2;
    p.read_us = {50, 60};
    p.page_bytes = 8192;
    p.stripe_dies = stripe;
    const Layout layout(p);
    for (const CellMode mode : {CellMode::native, CellMode::slc}) {
      const ModeLayout& m = layout.mode(mode);
      std::set<std::pair<std::uint32_t, std::uint32_t>> pages;
      std::uint32_t begun = 0, ended = 0;
      for (std::uint32_t grain = 0; grain < m.grains; ++grain) {
        const Layout::Spot spot = layout.spot_of(grain, m);
        ASSERT_LT(spot.program, layout.programs);
        ASSERT_LT(spot.page, m.pages_per_program);
        pages.emplace(spot.program, spot.page);
        begun += layout.begins(grain, m) ? 1 : 0;
        ended += layout.ends(grain, m) ? 1 : 0;
      }
      EXPECT_EQ(pages.size(), std::size_t{layout.programs} * m.pages_per_program);
      EXPECT_EQ(begun, layout.programs);
      EXPECT_EQ(ended, layout.programs);
    }
  }
}

// An expert, or a block of a sequence: read whole, alone.
TEST(Stripes, WhatIsReadTogetherComesFromManyDies) {
  const auto took = [](std::uint64_t stripe) {
    Profile p = tiny();
    p.bits_per_cell = 4;
    p.read_us = {50, 50, 50, 50};
    p.stripe_dies = stripe;
    p.buffer_bytes = 128 * 4096;
    p.capacity_bytes = p.physical_bytes() / 2;
    Drive drive(p);
    drive.fill(0, 256);
    return read_once(drive, 0, 8 * 4096);
  };
  // One program unit has eight pages, four in each plane: they are sensed one after the other, and leave by one
  // channel.
  EXPECT_GT(took(1), 4 * 50'000);
  EXPECT_LT(took(4), 2 * 50'000);
}

TEST(Stripes, AFlushWithoutProtectionFillsUpTheWholeStripe) {
  Profile p = tiny();
  p.power_loss_protection = false;
  p.stripe_dies = 4;
  Drive drive(p);
  drive.submit({.op = HostOp::write, .offset = 0, .bytes = 4096});
  drive.run_until_idle();
  drive.submit({.op = HostOp::flush});
  drive.run_until_idle();
  EXPECT_EQ(drive.counters().media_written_bytes, 4U * 2 * 4096);
  EXPECT_EQ(drive.completions().size(), 2U);
}

Profile tiered(Tiering tiering) {
  Profile p = tiny();
  p.bits_per_cell = 3;
  p.read_us = {100, 100, 100};
  p.slc_read_us = 20;
  p.slc_program_us = 200;
  p.program_us = 2000;
  p.pslc_superblocks = 8;
  p.blocks_per_plane = 64;
  p.capacity_bytes = p.physical_bytes() / 2;
  p.tiering = tiering;
  p.priorities = false;  // folding goes on beside writes
  return p;
}

double hot_reads_us(Drive& drive, std::uint64_t hot, std::uint64_t count) {
  return run_flows(drive, {{.length = hot, .requests = count}}, INT64_MAX)[0].reads.mean() * 1e-3;
}

TEST(Tiering, WhatIsReadOftenMovesToTheFastMedium) {
  const auto reads = [](Tiering tiering) {
    Drive drive(tiered(tiering));
    drive.fill_native(drive.layout().logical_units);
    drive.reset_counters();
    const std::uint64_t hot = drive.layout().slc.grains * 4096;  // an eighth of the fast medium
    const double before = hot_reads_us(drive, hot, 200);
    hot_reads_us(drive, hot, 4000);
    return std::pair(before, hot_reads_us(drive, hot, 2000));
  };
  const auto [first, by_heat] = reads(Tiering::heat);
  const auto [as_first, by_age] = reads(Tiering::age);
  EXPECT_GT(first, 105);
  EXPECT_LT(by_heat, 40);
  EXPECT_NEAR(by_age, as_first, 1);
}

TEST(Tiering, WhatIsUsedOftenStaysWhenOthersAreFolded) {
  const auto reads = [](Tiering tiering) {
    Drive drive(tiered(tiering));
    const std::uint64_t hot = drive.layout().slc.grains * 4096;
    const Flow once{.reads = 0, .access = Access::sequential, .length = hot, .depth = 16, .requests = hot / 4096};
    run_flows(drive, {once}, INT64_MAX);
    // Read all the time, while three times the fast medium is written beside it.
    run_flows(drive,
              {{.length = hot, .depth = 2},
               {.reads = 0,
                .access = Access::sequential,
                .first = hot,
                .length = drive.profile().capacity_bytes - hot,
                .depth = 4,
                .requests = 24 * drive.layout().slc.grains}},
              INT64_MAX);
    const std::uint64_t kept = drive.counters().kept_units;
    drive.run_until_idle();
    drive.completions().clear();
    return std::pair(hot_reads_us(drive, hot, 200), kept);
  };
  const auto [by_heat, kept] = reads(Tiering::heat);
  const auto [by_age, none_kept] = reads(Tiering::age);
  EXPECT_GT(kept, 0U);
  EXPECT_EQ(none_kept, 0U);
  EXPECT_GT(by_age, 105);
  EXPECT_LT(by_heat, 0.8 * by_age);
}

TEST(ReadCache, APartitionIsNotPushedOutByAnother) {
  const auto hot_us = [](std::vector<double> shares) {
    Profile p = tiny();
    p.read_cache_bytes = 64 * 4096;
    p.read_cache_shares = std::move(shares);
    Drive drive(p);
    drive.fill(0, drive.layout().logical_units);
    drive.reset_counters();
    // 24 pages read again and again, now and then, beside a corpus that is read once.
    const std::vector<Flow> flows{{.length = 24 * 4096, .per_second = 2000, .partition = 1, .requests = 2000},
                                  {.access = Access::sequential, .first = 24 * 4096, .depth = 8, .partition = 0}};
    return run_flows(drive, flows, INT64_MAX, 100)[0].reads.mean() * 1e-3;
  };
  EXPECT_LT(hot_us({0.5, 0.5}), 15);
  EXPECT_GT(hot_us({1}), 60);
}

TEST(ReadCache, SecondChanceAndSizesHold) {
  Profile p = tiny();
  p.read_cache_bytes = 3 * 4096;
  ReadCache cache(p);
  for (const std::uint32_t unit : {1, 2, 3}) cache.insert(unit, 0);
  EXPECT_TRUE(cache.hit(1));
  cache.insert(4, 0);  // in the place of 2: 1 was used
  EXPECT_TRUE(cache.hit(1));
  EXPECT_FALSE(cache.hit(2));
  EXPECT_TRUE(cache.hit(3));
  cache.drop(3);
  EXPECT_FALSE(cache.hit(3));
  cache.insert(9, 7);  // there is no such partition
  EXPECT_TRUE(cache.hit(9));
  cache.clear();
  EXPECT_FALSE(cache.hit(1));
}

TEST(Prefetch, WhatWasAnnouncedIsThereWhenItIsRead) {
  for (const Access access : {Access::sequential, Access::random}) {
    const auto mean_us = [&](std::uint32_t hints, std::uint64_t cache) {
      Profile p = tiny();
      p.read_cache_bytes = cache;
      Drive drive(p);
      drive.fill(0, drive.layout().logical_units);
      drive.reset_counters();
      const Flow flow{.access = access, .hints = hints, .requests = 1000};
      const FlowResult run = run_flows(drive, {flow}, INT64_MAX, 20)[0];
      EXPECT_EQ(run.reads.count(), 980U);
      const auto& ops = drive.counters().flash_ops;
      const std::uint64_t reads = ops[static_cast<std::size_t>(Purpose::host)];
      const std::uint64_t ahead = ops[static_cast<std::size_t>(Purpose::prefetch)];
      EXPECT_LE(reads + ahead, 1050U) << "little is read twice: what was there and had to go before its turn";
      if (hints > 0 && cache > 0) {
        EXPECT_LT(reads, 50U) << "all but the first are announced";
      }
      return run.reads.mean() * 1e-3;
    };
    EXPECT_GT(mean_us(0, 64 * 4096), 50);
    EXPECT_GT(mean_us(16, 0), 50) << "without a cache there is no place for it";
    EXPECT_LT(mean_us(16, 64 * 4096), 25);
  }
}

TEST(Prefetch, AReadOfWhatIsOnItsWayWaitsForIt) {
  Profile p = tiny();
  p.read_cache_bytes = 64 * 4096;
  Drive drive(p);
  drive.fill(0, 64);
  drive.submit({.op = HostOp::prefetch, .offset = 0, .bytes = 4096});
  drive.run_until(20'000);
  EXPECT_EQ(drive.completions().size(), 1U) << "it is done at once";
  drive.completions().clear();
  drive.submit({.offset = 0, .bytes = 4096});
  drive.run_until_idle();
  EXPECT_EQ(drive.completions().back().at, 1000 + 1 + 3000 + 50'000 + 4096 + 1024 + 1000);
  EXPECT_EQ(drive.counters().flash_ops[static_cast<std::size_t>(Purpose::host)], 0U);
  EXPECT_EQ(drive.counters().cache_hits, 1U);
}

}  // namespace
}  // namespace artesian::nand
