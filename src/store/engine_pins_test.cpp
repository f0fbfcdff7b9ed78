// Named pins: they hold through reclaim, crashes and openings, until they are removed.
#include <gtest/gtest.h>

#include "device/power_cut_device.h"
#include "store/engine_rig_test.h"

namespace artesian {
namespace {

class EnginePins : public testing::TestWithParam<bool>, protected EngineRig {
 protected:
  EnginePins() : EngineRig(GetParam()) {}
  void SetUp() override { make(); }
  // How each was answered.
  std::vector<Outcome> pin(const std::string& name, std::uint64_t first, std::uint64_t count) {
    std::vector<std::vector<std::byte>> keys;
    std::vector<Probe> items;
    for (std::uint64_t i = 0; i < count; ++i) keys.push_back(key_of(first + i));
    for (const auto& key : keys) items.push_back({.key = key});
    EXPECT_TRUE(engine_->pin_named(ns_, name, items));
    std::vector<Outcome> outcomes;
    for (const Probe& item : items) outcomes.push_back(item.outcome);
    return outcomes;
  }
  void fill(std::uint64_t first) {  // all of the store, more than once
    for (std::uint64_t i = 0; i < 80; ++i) {
      // While pinned blocks are carried out of the last segments of so small a store, a put may be shed, once.
      if (const Outcome once = one_->put(first + i, 60'000); once == Outcome::rejected) {
        ASSERT_EQ(one_->put(first + i, 60'000), Outcome::stored);
      } else {
        ASSERT_EQ(once, Outcome::stored);
      }
    }
  }
};

TEST_P(EnginePins, HoldThroughReclaimAndOpenings) {
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_EQ(one_->put(i, 60'000), Outcome::stored);
  const std::vector<Outcome> both{Outcome::hit, Outcome::hit, Outcome::miss};
  ASSERT_EQ(one_->erase(2), Outcome::hit);
  EXPECT_EQ(pin("prompt", 0, 3), both);
  fill(100);
  EXPECT_EQ(one_->get(0), Outcome::hit);
  EXPECT_EQ(one_->get(1), Outcome::hit);
  EXPECT_EQ(one_->get(3), Outcome::miss);
  reopen();
  const auto pins = engine_->named_pins();
  ASSERT_EQ(pins.size(), 1U);
  EXPECT_EQ(pins[0].name, "prompt");
  EXPECT_EQ(pins[0].ns, ns_);
  EXPECT_EQ(pins[0].blocks, 2U);
  EXPECT_EQ(pins[0].bytes, 2 * 16 * store_page);
  EXPECT_EQ(engine_->stats().pinned, 2U);
  fill(200);
  EXPECT_EQ(one_->get(0), Outcome::hit);
  EXPECT_EQ(one_->get(1), Outcome::hit);
  ASSERT_TRUE(engine_->unpin_named(ns_, "prompt"));
  EXPECT_EQ(engine_->unpin_named(ns_, "prompt").error().code, Code::not_found);
  EXPECT_EQ(engine_->stats().pinned, 0U);
  fill(300);
  EXPECT_EQ(one_->get(0), Outcome::miss);
  reopen();
  EXPECT_TRUE(engine_->named_pins().empty());
}

TEST_P(EnginePins, ABlockUnderTwoNamesStaysUntilBothAreGoneAndOtherPinsStayTheirs) {
  ASSERT_EQ(one_->put(1, 60'000), Outcome::stored);
  ASSERT_EQ(one_->pin(1), Outcome::hit);
  pin("a", 1, 1);
  pin("a", 1, 1);  // once more is the same
  pin("b", 1, 1);
  EXPECT_EQ(engine_->named_pins().at(0).blocks, 1U);
  ASSERT_TRUE(engine_->unpin_named(ns_, "a"));
  one_->unpin(1);
  EXPECT_EQ(engine_->stats().pinned, 1U);
  ASSERT_TRUE(engine_->unpin_named(ns_, "b"));
  EXPECT_EQ(engine_->stats().pinned, 0U);
}

TEST_P(EnginePins, CountAgainstTheLimitOfAllPins) {
  std::uint64_t pinned = 0;
  for (std::uint64_t i = 0; i < 20; ++i) {
    ASSERT_EQ(one_->put(i, 60'000), Outcome::stored);
    pinned += pin("many", i, 1)[0] == Outcome::hit ? 1 : 0;
  }
  EXPECT_EQ(pinned, 8U * 64 / 4 / 16);  // a quarter of 8 segments of 64 pages, 16 pages each
  EXPECT_EQ(one_->pin(19), Outcome::rejected);
}

TEST_P(EnginePins, TakeMoreBlocksThanAPageHoldsAndNoNameThatIsTooLong) {
  for (std::uint64_t i = 0; i < 250; ++i) ASSERT_EQ(one_->put(i, 100), Outcome::stored) << i;
  const std::string name(pin_name_limit, 'n');
  const auto outcomes = pin(name, 0, 250);
  const auto pinned = std::ranges::count(outcomes, Outcome::hit);
  EXPECT_EQ(pinned, 64);  // the limit: 128 pages of two
  reopen();
  EXPECT_EQ(engine_->named_pins().at(0).blocks, 64U);
  std::vector<Probe> none;
  EXPECT_EQ(engine_->pin_named(ns_, name + "n", none).error().code, Code::invalid);
  EXPECT_EQ(engine_->pin_named(ns_, "", none).error().code, Code::invalid);
}

TEST_P(EnginePins, GoWithTheirNamespace) {
  ASSERT_EQ(one_->put(1, 60'000), Outcome::stored);
  pin("a", 1, 1);
  ASSERT_TRUE(engine_->erase_namespace(ns_));
  EXPECT_TRUE(engine_->named_pins().empty());
  EXPECT_EQ(engine_->stats().pinned, 0U);
  reopen();
  EXPECT_TRUE(engine_->named_pins().empty());
}

// The power goes before each write: a pin that was acknowledged is there with its blocks, one that was removed is not.
TEST_P(EnginePins, SurviveAPowerCutAtEveryWrite) {
  std::uint64_t cuts = 0;
  for (std::uint64_t cut = 1;; ++cut) {
    PowerCutDevice device(formatted_files(kind_, 8), cut);
    bool pinned = false, removing = false, removed = false;
    if (auto engine = Engine::open(device, clock_, kind_.settings())) {
      const auto ns = (*engine)->open_namespace(some_fields());
      if (ns) {
        OneByOne one(**engine, *ns);
        for (std::uint64_t i = 0; i < 3; ++i) one.put(i, 20'000);
        const auto key = key_of(1);
        Probe item{.key = key};
        pinned = (*engine)->pin_named(*ns, "p", std::span(&item, 1)).has_value() && item.outcome == Outcome::hit;
        for (std::uint64_t i = 10; i < 40; ++i) one.put(i, 60'000);
        removing = true;
        removed = (*engine)->unpin_named(*ns, "p").has_value();
      }
    }
    if (!device.is_cut()) break;
    ++cuts;
    for (std::uint64_t seed = 0; seed < 2; ++seed) {
      MemoryDevice after(device.after_cut(seed));
      auto engine = Engine::open(after, clock_, kind_.settings()).value();
      OneByOne one(*engine, engine->open_namespace(some_fields()).value());
      const auto pins = engine->named_pins();
      const Outcome outcome = one.get(1);
      if (pinned && !removing) {
        EXPECT_EQ(pins.size(), 1U) << "cut " << cut;
        EXPECT_EQ(outcome, Outcome::hit) << "cut " << cut;
      }
      if (removed) {
        EXPECT_TRUE(pins.empty()) << "cut " << cut;
      }
    }
  }
  EXPECT_GT(cuts, 30U);
}

INSTANTIATE_TEST_SUITE_P(Stores, EnginePins, testing::Bool(), StoreKind::name);

}  // namespace
}  // namespace artesian
