#include "base/sha256.h"

#include <gtest/gtest.h>

#include <string>
#include <string_view>

namespace artesian {
namespace {

std::string hex(const Sha256& digest) {
  std::string text;
  for (const std::byte value : digest) text += fmt::format("{:02x}", static_cast<unsigned>(value));
  return text;
}

TEST(Sha256, GivesWhatTheStandardSays) {
  constexpr std::string_view text = "abc";
  EXPECT_EQ(hex(sha256(std::as_bytes(std::span(text))).value()),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(hex(sha256({}).value()), "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
}

}  // namespace
}  // namespace artesian
