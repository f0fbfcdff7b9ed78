#include "gateway/server_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace artesian {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Result<ServerCommand> behind(const std::vector<std::string>& arguments, const ServerEnvironment& environment = {}) {
  return behind_gateway(arguments, environment, "/run/x.sock", "/dev/shm/x");
}

TEST(ServerCommand, ListensBehindAndSaysWhereItWouldHave) {
  const auto command = behind({"llama-server", "--host", "0.0.0.0", "-m", "model.gguf", "--port", "9000", "-np", "2"});
  ASSERT_TRUE(command) << command.error().message;
  EXPECT_EQ(command->host, "0.0.0.0");
  EXPECT_EQ(command->port, 9000);
  EXPECT_THAT(command->arguments,
              ElementsAre("llama-server", "-m", "model.gguf", "-np", "2", "--host", "/run/x.sock", "--slot-save-path",
                          "/dev/shm/x/", "--cache-ram", "0", "--no-cache-idle-slots"));
}

TEST(ServerCommand, TheEnvironmentCountsLess) {
  const ServerEnvironment environment{.host = "::1", .port = "7000", .api_key = "a", .cache_ram = "100"};
  const auto command = behind({"llama-server", "--port", "9000", "--api-key", "b,c"}, environment);
  ASSERT_TRUE(command);
  EXPECT_EQ(command->host, "::1");
  EXPECT_EQ(command->port, 9000);
  EXPECT_THAT(command->api_keys, ElementsAre("a", "b", "c"));
  EXPECT_THAT(command->arguments, testing::Not(testing::Contains("--cache-ram")));
}

TEST(ServerCommand, DefaultsAreTheServers) {
  const auto command = behind({"llama-server", "-cram", "64"});
  ASSERT_TRUE(command);
  EXPECT_EQ(command->host, "127.0.0.1");
  EXPECT_EQ(command->port, 8080);
  EXPECT_THAT(command->arguments, testing::Not(testing::Contains("--cache-ram")));
}

TEST(ServerCommand, WhatCannotBeBehindIsRefused) {
  EXPECT_THAT(behind({"s", "--slot-save-path", "x"}).error().message, HasSubstr("leave out --slot-save-path"));
  EXPECT_THAT(behind({"s", "--ssl-key-file", "x"}).error().message, HasSubstr("TLS"));
  EXPECT_THAT(behind({"s", "--port", "x"}).error().message, HasSubstr("a number"));
  EXPECT_THAT(behind({"s", "--port"}).error().message, HasSubstr("lacks its value"));
}

}  // namespace
}  // namespace artesian
