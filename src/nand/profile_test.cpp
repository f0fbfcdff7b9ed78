#include "nand/profile.h"

#include <gtest/gtest.h>

#include "base/units.h"

namespace artesian::nand {
namespace {

TEST(Profile, AllThatShipAreReadAndEveryFigureHasASourceOrIsAnAssumption) {
  EXPECT_EQ(shipped_profiles().size(), 9U);
  for (const ShippedProfile& shipped : shipped_profiles()) {
    const auto profile = shipped_profile(shipped.name);
    ASSERT_TRUE(profile) << profile.error().message;
    EXPECT_EQ(profile->name, shipped.name);
    EXPECT_GT(profile->figures.size(), 35U);
    for (const Figure& figure : profile->figures) EXPECT_NE(figure.source.empty(), figure.assumption.empty());
    const bool held_out = std::ranges::any_of(profile->published, [](const Published& one) { return !one.used; });
    EXPECT_TRUE(held_out) << shipped.name << ": no published figure was kept to check it";
  }
}

std::string changed(std::string_view from, std::string_view to) {
  std::string text(shipped_profiles()[0].json);
  const std::size_t place = text.find(from);
  EXPECT_NE(place, std::string::npos) << from;
  return text.replace(place, from.size(), to);
}

void expect_refused(const std::string& text, std::string_view message) {
  const auto profile = parse_profile(text, "p.json");
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, Code::invalid);
  EXPECT_NE(profile.error().message.find(message), std::string::npos) << profile.error().message;
}

TEST(Profile, ImpossibleFiguresAreRefusedWithFileAndLine) {
  const std::string first(shipped_profiles()[0].name);
  expect_refused("{", "p.json:1: is no JSON here");
  expect_refused("[]", "p.json:1: a profile is a JSON object");
  expect_refused(changed("\"channels\": {\"value\": 8", "\"channels\": {\"value\": 0"),
                 "p.json:6: channels is 0, which is not between 1 and 256");
  expect_refused(changed("\"channels\": {\"value\": 8", "\"channels\": {\"value\": 1.5"), "which is no whole number");
  expect_refused(changed("\"channels\": {\"value\": 8", "\"channels\": {\"value\": \"many\""), "takes a number");
  expect_refused(changed("\"channels\": {", "\"chanels\": {"), "geometry has no chanels");
  expect_refused(changed("\"suspend\": {\"value\": \"none\"", "\"suspend\": {\"value\": \"never\""),
                 "suspend takes one of none, erase, program_erase");
  expect_refused(changed("\"cache_read\": {\"value\": false", "\"cache_read\": {\"value\": 1"), "takes true or false");
  expect_refused(changed("[29.76, 41.76]", "[29.76]"), "2 bits a cell need as many read times, there are 1");
  expect_refused(changed("\"map_unit_bytes\": {\"value\": 4096", "\"map_unit_bytes\": {\"value\": 3072"),
                 "no multiple");
  expect_refused(changed("512110190592", "999999999999999"), "leaves too little");
  expect_refused(changed("\"source\": \"", "\"sauce\": \""), "needs either the source of the figure or an assumption");
}

TEST(Profile, WithLessCapacityDiesAndSpareShareStay) {
  for (const ShippedProfile& shipped : shipped_profiles()) {
    const Profile whole = *shipped_profile(shipped.name);
    const Profile part = with_capacity(whole, 8 * GiB);
    EXPECT_TRUE(check_profile(part)) << shipped.name << ": " << check_profile(part).error().message;
    EXPECT_TRUE(check_size(part)) << shipped.name;
    EXPECT_EQ(part.dies(), whole.dies());
    EXPECT_NEAR(part.alpha(), whole.alpha(), 0.001) << shipped.name;
  }
}

TEST(Profile, AnUnknownNameGetsTheNamesThereAre) {
  const auto profile = shipped_profile("floppy");
  ASSERT_FALSE(profile);
  EXPECT_EQ(profile.error().code, Code::not_found);
  EXPECT_NE(profile.error().message.find("mqsim"), std::string::npos);
}

}  // namespace
}  // namespace artesian::nand
