#include "platform/shared_memory.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstring>
#include <filesystem>
#include <iterator>

namespace artesian {
namespace {

struct Ends {
  Ends() { EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, fds.data()), 0); }
  ~Ends() {
    for (const int fd : fds) ::close(fd);
  }
  std::array<int, 2> fds{};
};

constexpr std::array<std::byte, 4> greeting{std::byte{1}, std::byte{2}, std::byte{3}, std::byte{4}};

TEST(SharedMemory, BothSeeTheSameBytes) {
  const Ends ends;
  auto ours = SharedMemory::create(8192);
  ASSERT_TRUE(ours) << ours.error().message;
  ASSERT_TRUE(ours->send(ends.fds[0], greeting));
  std::array<std::byte, 4> heard{};
  const auto theirs = SharedMemory::receive(ends.fds[1], heard);
  ASSERT_TRUE(theirs) << theirs.error().message;
  EXPECT_EQ(heard, greeting);
  ASSERT_EQ(theirs->bytes().size(), 8192U);
  ours->bytes()[8191] = std::byte{42};
  EXPECT_EQ(theirs->bytes()[8191], std::byte{42});
}

TEST(SharedMemory, NothingYetIsToBeTriedAgain) {
  const Ends ends;
  std::array<std::byte, 4> heard{};
  const auto none = SharedMemory::receive(ends.fds[1], heard);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::retry);
}

TEST(SharedMemory, AMessageWithoutMemoryOrTooShortIsRefused) {
  const Ends ends;
  std::array<std::byte, 4> heard{};
  ASSERT_EQ(::send(ends.fds[0], greeting.data(), greeting.size(), 0), 4);
  const auto bare = SharedMemory::receive(ends.fds[1], heard);
  ASSERT_FALSE(bare);
  EXPECT_EQ(bare.error().code, Code::invalid);
  const auto ours = SharedMemory::create(4096);
  ASSERT_TRUE(ours && ours->send(ends.fds[0], std::span(greeting).first(2)));
  EXPECT_FALSE(SharedMemory::receive(ends.fds[1], heard));
}

// As a sender would that keeps to no rules.
template <std::size_t count>
ssize_t send_greeting(int socket, const std::array<int, count>& descriptors) {
  char beside[CMSG_SPACE(sizeof(descriptors))] = {};
  iovec text{.iov_base = const_cast<std::byte*>(greeting.data()), .iov_len = greeting.size()};
  msghdr all{};
  all.msg_iov = &text;
  all.msg_iovlen = 1;
  all.msg_control = beside;
  all.msg_controllen = sizeof(beside);
  cmsghdr* part = CMSG_FIRSTHDR(&all);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(descriptors));
  std::memcpy(CMSG_DATA(part), descriptors.data(), sizeof(descriptors));
  return ::sendmsg(socket, &all, 0);
}

std::size_t open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<std::size_t>(std::distance(begin(all), end(all)));
}

TEST(SharedMemory, MoreThanOneIsRefusedAndNoneStaysOpen) {
  const Ends ends;
  const int fd = ::memfd_create("one of two", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  const std::size_t before = open_descriptors();
  ASSERT_EQ(send_greeting(ends.fds[0], std::array{fd, fd}), 4);
  std::array<std::byte, 4> heard{};
  const auto taken = SharedMemory::receive(ends.fds[1], heard);
  ASSERT_FALSE(taken);
  EXPECT_EQ(taken.error().code, Code::invalid);
  EXPECT_EQ(open_descriptors(), before);
  ::close(fd);
}

TEST(SharedMemory, MemoryThatTheSenderCouldCutIsNotTaken) {
  const Ends ends;
  const int fd = ::memfd_create("unsealed", MFD_CLOEXEC);
  ASSERT_GE(fd, 0);
  ASSERT_EQ(::ftruncate(fd, 4096), 0);
  ASSERT_EQ(send_greeting(ends.fds[0], std::array{fd}), 4);
  ::close(fd);
  std::array<std::byte, 4> heard{};
  const auto taken = SharedMemory::receive(ends.fds[1], heard);
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().message.find("smaller"), std::string::npos);
}

}  // namespace
}  // namespace artesian
