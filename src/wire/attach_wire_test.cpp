#include "wire/attach_wire.h"

#include <gtest/gtest.h>

namespace artesian {
namespace {

using namespace std::chrono_literals;

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

TEST(AttachWire, WhatIsCutIsNoFrame) {
  const std::string key = "k", parent = "p";
  const attach::Request request{.op = attach::Op::put,
                                .id = 1,
                                .ns = 2,
                                .patience = 5ms,
                                .items = {{.key = bytes_of(key),
                                           .offset = 4096,
                                           .bytes = 10,
                                           .parent = bytes_of(parent),
                                           .extents = {4, 6},
                                           .hints = {.session = 3}}}};
  const auto frame = attach::encode(request);
  const auto body = std::span(frame).subspan(attach::length_bytes);
  const auto whole = attach::decode_request(body);
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->items[0].extents, (std::vector<std::uint32_t>{4, 6}));
  EXPECT_EQ(whole->items[0].hints.session, 3U);
  EXPECT_EQ(whole->patience, 5ms);
  for (std::size_t size = 0; size < body.size(); ++size) EXPECT_FALSE(attach::decode_request(body.first(size))) << size;
  const auto answer = attach::encode({.id = 4, .error = Error{Code::retry, "busy"}, .items = {{Outcome::hit, 5}}});
  const auto said = std::span(answer).subspan(attach::length_bytes);
  const auto heard = attach::decode_reply(said);
  ASSERT_TRUE(heard);
  EXPECT_EQ(heard->error->message, "busy");
  EXPECT_EQ(heard->items[0].bytes, 5U);
  for (std::size_t size = 0; size < said.size(); ++size) EXPECT_FALSE(attach::decode_reply(said.first(size))) << size;
}

TEST(AttachWire, NamedPinsGoBothWays) {
  const std::string key = "k";
  for (const attach::Op op : {attach::Op::pin_named, attach::Op::unpin_named}) {
    const auto frame =
        attach::encode({.op = op, .id = 1, .ns = 2, .name = "prompt", .items = {{.key = bytes_of(key)}}});
    const auto body = std::span(frame).subspan(attach::length_bytes);
    const auto whole = attach::decode_request(body);
    ASSERT_TRUE(whole);
    EXPECT_EQ(whole->name, "prompt");
    for (std::size_t size = 0; size < body.size(); ++size)
      EXPECT_FALSE(attach::decode_request(body.first(size))) << size;
  }
  const auto answer =
      attach::encode({.id = 4, .pins = {{.ns = 3, .name = "a", .blocks = 5, .bytes = 6}, {.name = "b"}}});
  const auto said = std::span(answer).subspan(attach::length_bytes);
  const auto heard = attach::decode_reply(said);
  ASSERT_TRUE(heard);
  ASSERT_EQ(heard->pins.size(), 2U);
  EXPECT_EQ(heard->pins[0].ns, 3U);
  EXPECT_EQ(heard->pins[0].name, "a");
  EXPECT_EQ(heard->pins[0].blocks, 5U);
  EXPECT_EQ(heard->pins[0].bytes, 6U);
  for (std::size_t size = 0; size < said.size(); ++size) EXPECT_FALSE(attach::decode_reply(said.first(size))) << size;
}

TEST(AttachWire, AnotherVersionIsRefusedInWords) {
  auto said = attach::greeting();
  EXPECT_TRUE(attach::check_greeting(said));
  said[8] = std::byte{1};  // of before there were named pins
  const auto refused = attach::check_greeting(said);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("version 1 of this, here it is 2"), std::string::npos)
      << refused.error().message;
}

}  // namespace
}  // namespace artesian
