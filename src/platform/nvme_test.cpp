#include "platform/nvme.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>

namespace artesian {
namespace {

using Bytes = std::array<std::uint8_t, sizeof(nvme_uring_cmd)>;

Bytes bytes_of(const nvme_uring_cmd& command) {
  Bytes bytes{};
  std::memcpy(bytes.data(), &command, sizeof(command));
  return bytes;
}

std::span<std::byte> memory_at(std::uintptr_t address, std::size_t size) {
  return {reinterpret_cast<std::byte*>(address), size};  // never looked into
}

TEST(Nvme, APlacedWriteIsTheseBytes) {
  static_assert(sizeof(nvme_uring_cmd) == 72);
  const auto got = bytes_of(nvme_placed_write(7, 0x1122334455667788, 4096, memory_at(0xa0b0c0d0e000, 0x8000), 0x0304));
  const Bytes want{
      0x01, 0,    0,    0,    7,    0,    0,    0,                              // write, namespace 7
      0,    0,    0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0,   // command dwords 2 and 3, metadata
      0x00, 0xe0, 0xd0, 0xc0, 0xb0, 0xa0, 0,    0,                              // the memory's address
      0,    0,    0,    0,    0x00, 0x80, 0,    0,                              // no metadata; 32 KiB
      0x88, 0x77, 0x66, 0x55, 0x44, 0x33, 0x22, 0x11,                           // the first block
      0x07, 0x00, 0x20, 0x00,                                                   // 8 blocks, less one; directive type 2
      0x00, 0x00, 0x04, 0x03,                                                   // the placement identifier
      0,    0,    0,    0,    0,    0,    0,    0,    0, 0, 0, 0, 0, 0, 0, 0};  // dwords 14 and 15, no time limit
  EXPECT_EQ(got, want);
}

TEST(Nvme, TheQuestionForReclaimUnitsIsTheseBytes) {
  const auto got = bytes_of(nvme_reclaim_unit_status(1, memory_at(0x1000, 4096)));
  const Bytes want{0x12, 0,    0, 0, 1,    0,    0, 0,                          // I/O management receive, namespace 1
                   0,    0,    0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0,  //
                   0x00, 0x10, 0, 0, 0,    0,    0, 0,                          // the memory's address
                   0,    0,    0, 0, 0x00, 0x10, 0, 0,                          // 4 KiB
                   0x01, 0,    0, 0, 0xff, 0x03, 0, 0,  // reclaim unit handle status; 1,024 dwords, less one
                   0,    0,    0, 0, 0,    0,    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_EQ(got, want);
}

TEST(Nvme, TheAnswerNamesItsPlacements) {
  std::array<std::byte, 16 + 2 * 32> status{};
  status[14] = std::byte{2};
  status[16] = std::byte{5};  // the first one's identifier,
  status[18] = std::byte{9};  // its handle: not ours to name
  status[16 + 32] = std::byte{6}, status[16 + 33] = std::byte{1};
  EXPECT_EQ(read_reclaim_unit_status(status).value(), (std::vector<std::uint16_t>{5, 0x106}));
  status[14] = std::byte{0};
  EXPECT_TRUE(read_reclaim_unit_status(status)->empty());
}

TEST(Nvme, AnAnswerThatPromisesMoreIsCorrupt) {
  std::array<std::byte, 16 + 32> status{};
  status[14] = std::byte{2};
  EXPECT_EQ(read_reclaim_unit_status(status).error().code, Code::corrupt);
  EXPECT_EQ(read_reclaim_unit_status(std::span(status).first(15)).error().code, Code::corrupt);
}

TEST(Nvme, WhatIsNoNamespaceIsRefused) {
  EXPECT_EQ(NvmeNamespace::open("vda").error().message, "vda is no NVMe namespace");
  EXPECT_EQ(NvmeNamespace::open("nvme999n9").error().code, Code::rejected);
}

}  // namespace
}  // namespace artesian
