#include "platform/local_socket.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <filesystem>
#include <thread>

namespace artesian {
namespace {

constexpr Nanos patience = std::chrono::seconds(10);

class LocalSocketTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "socket-XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    path_ = folder_ + "/s";
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_, path_;
};

TEST_F(LocalSocketTest, LinesGoBothWays) {
  auto listener = LocalListener::open(path_);
  ASSERT_TRUE(listener) << listener.error().message;
  const auto stop = Event::create();
  std::thread server([&] {
    for (int i = 0; i < 2; ++i) {
      auto taken = listener->accept(*stop);
      ASSERT_TRUE(taken && *taken);
      while (const auto line = (*taken)->read_line(100, patience)) {
        ASSERT_TRUE((*taken)->write("you said " + *line + "\n", patience));
      }
    }
  });
  for (int i = 0; i < 2; ++i) {
    auto client = LocalSocket::connect(path_);
    ASSERT_TRUE(client) << client.error().message;
    ASSERT_TRUE(client->write("one\ntw", patience));
    EXPECT_EQ(client->read_line(100, patience).value(), "you said one");
    ASSERT_TRUE(client->write("o\n", patience));
    EXPECT_EQ(client->read_line(100, patience).value(), "you said two");
  }
  server.join();
}

TEST_F(LocalSocketTest, ItIsTheOwnersAloneAndGoesWithTheListener) {
  {
    auto listener = LocalListener::open(path_);
    ASSERT_TRUE(listener);
    struct stat facts{};
    ASSERT_EQ(::stat(path_.c_str(), &facts), 0);
    EXPECT_EQ(facts.st_mode & 0777, 0600U);
    EXPECT_EQ(LocalListener::open(path_).error().code, Code::rejected);
  }
  EXPECT_FALSE(std::filesystem::exists(path_));
  EXPECT_EQ(LocalSocket::connect(path_).error().code, Code::not_found);
}

TEST_F(LocalSocketTest, ANameLeftByOneThatWasKilledIsTakenOver) {
  {
    auto listener = LocalListener::open(path_);
    ASSERT_TRUE(listener);
    std::filesystem::create_hard_link(path_, path_ + "2");
  }
  std::filesystem::rename(path_ + "2", path_);  // a socket without anybody behind it
  EXPECT_EQ(LocalSocket::connect(path_).error().code, Code::not_found);
  EXPECT_TRUE(LocalListener::open(path_));
}

TEST_F(LocalSocketTest, WhatIsTooLongIsRefused) {
  EXPECT_EQ(LocalListener::open("/" + std::string(200, 'x')).error().code, Code::invalid);
  auto listener = LocalListener::open(path_);
  const auto stop = Event::create();
  auto client = LocalSocket::connect(path_);
  auto taken = listener->accept(*stop);
  ASSERT_TRUE(client->write(std::string(200, 'x'), patience));
  EXPECT_EQ((*taken)->read_line(100, patience).error().code, Code::invalid);
  EXPECT_EQ(client->read_line(100, std::chrono::milliseconds(1)).error().code, Code::retry);
  stop->set();
  EXPECT_FALSE(listener->accept(*stop)->has_value());
}

}  // namespace
}  // namespace artesian
