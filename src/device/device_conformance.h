// One list of cases over every Device, for tests. A new device is a Rig that opens it and one more row where the suite
// is instantiated: device_conformance_test.cpp, or a test beside a device of a later room.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <ostream>
#include <vector>

#include "base/units.h"
#include "device/device.h"
#include "platform/arena.h"

namespace artesian {
namespace {

using Content = std::vector<std::vector<std::byte>>;

struct Limits {
  std::uint32_t depth = 8;
  std::uint32_t queue_max = 64;
  bool writable = false;
};

// A device, its clock, and what happens to its files behind its back.
class Rig {
 public:
  virtual ~Rig() = default;
  virtual Device& device() = 0;
  virtual void close() = 0;
  virtual Nanos now() const = 0;
  virtual void shrink(FileIndex file, std::uint64_t bytes) = 0;
  virtual bool virtual_time() const { return false; }  // only waiting moves the clock
};

struct Kind {
  const char* name;
  std::unique_ptr<Rig> (*make)(const Content& content, Limits limits);
};

inline void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

constexpr std::uint64_t first_bytes = 1 * MiB + 1000, second_bytes = 64 * KiB;

std::byte pattern(FileIndex file, std::uint64_t offset) {
  return static_cast<std::byte>(((offset + 77 * file) * 2654435761U) >> 13);
}

class DeviceConformance : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override { memory_ = std::move(*Arena::reserve(4 * MiB)); }

  Device& open(Limits limits = {}) {
    Content content(2);
    content[0].resize(first_bytes);
    content[1].resize(second_bytes);
    for (FileIndex file = 0; file < 2; ++file) {
      for (std::uint64_t i = 0; i < content[file].size(); ++i) content[file][i] = pattern(file, i);
    }
    rig_ = GetParam().make(content, limits);
    return rig_->device();
  }

  IoRequest read(FileIndex file, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at, std::uint64_t tag) {
    return {.file = file, .offset = offset, .buffer = memory_.span().subspan(at, bytes), .tag = tag};
  }

  std::vector<IoCompletion> drain(Device& device, std::size_t count, std::size_t room = 4) {
    std::vector<IoCompletion> all, some(room);
    while (all.size() < count) {
      const std::size_t got = device.wait(some, rig_->now() + std::chrono::seconds(20));
      if (got == 0) break;
      all.insert(all.end(), some.begin(), some.begin() + static_cast<std::ptrdiff_t>(got));
    }
    EXPECT_EQ(all.size(), count);
    all.resize(count);
    return all;
  }

  IoCompletion finish(Device& device, const IoRequest& request) {
    const auto submitted = device.submit(std::span(&request, 1));
    if (!submitted) return {.tag = request.tag, .bytes = 0, .status = submitted};
    return drain(device, 1)[0];
  }

  void expect_content(FileIndex file, std::uint64_t offset, std::uint64_t bytes, std::uint64_t at) {
    for (std::uint64_t i = 0; i < bytes; ++i) {
      ASSERT_EQ(memory_.data()[at + i], pattern(file, offset + i)) << "file " << file << " offset " << offset + i;
    }
  }

  Arena memory_;
  std::unique_ptr<Rig> rig_;
};

TEST_P(DeviceConformance, StatesItsFacts) {
  const auto& facts = open().facts();
  EXPECT_EQ(facts.file_bytes, (std::vector<std::uint64_t>{first_bytes, second_bytes}));
  EXPECT_GE(facts.alignment, 4096U);
  EXPECT_EQ(facts.queue_depth_max, 8U);
  EXPECT_EQ(facts.queue_max, 64U);
  EXPECT_FALSE(facts.name.empty());
}

TEST_P(DeviceConformance, ReadsTheRightBytesFromEachFileInAnyOrder) {
  Device& device = open({.depth = 3});
  std::vector<IoRequest> requests;
  for (std::uint64_t i = 0; i < 16; ++i)
    requests.push_back(read(0, (i * 7 % 16) * 64 * KiB, 64 * KiB, i * 64 * KiB, i));
  for (std::uint64_t i = 0; i < 16; ++i)
    requests.push_back(read(1, i * 4 * KiB, 4 * KiB, 1 * MiB + i * 4 * KiB, 16 + i));
  ASSERT_TRUE(device.submit(requests));
  std::map<std::uint64_t, std::uint64_t> bytes;
  for (const auto& completion : drain(device, 32)) {
    ASSERT_TRUE(completion.status) << completion.status.error().message;
    bytes[completion.tag] = completion.bytes;
  }
  ASSERT_EQ(bytes.size(), 32U);  // each tag once
  for (const auto& request : requests) {
    EXPECT_EQ(bytes[request.tag], request.buffer.size());
    const auto at = static_cast<std::uint64_t>(request.buffer.data() - memory_.data());
    expect_content(request.file, request.offset, request.buffer.size(), at);
  }
  const auto counters = device.counters();
  EXPECT_EQ(counters.reads, 32U);
  EXPECT_EQ(counters.bytes_read, 1 * MiB + 64 * KiB);
  EXPECT_EQ(counters.in_flight, 0U);
  EXPECT_EQ(counters.queued, 0U);
}

TEST_P(DeviceConformance, NeighboursCompleteEachByItself) {
  Device& device = open();
  std::vector<IoRequest> requests;  // in file order, in memory backwards: what a device may join, it must take apart
  for (std::uint64_t i = 0; i < 32; ++i) requests.push_back(read(0, i * 16 * KiB, 16 * KiB, (31 - i) * 16 * KiB, i));
  ASSERT_TRUE(device.submit(requests));
  for (const auto& completion : drain(device, 32, 1)) {
    ASSERT_TRUE(completion.status) << completion.status.error().message;
    EXPECT_EQ(completion.bytes, 16 * KiB);
  }
  for (std::uint64_t i = 0; i < 32; ++i) expect_content(0, i * 16 * KiB, 16 * KiB, (31 - i) * 16 * KiB);
}

TEST_P(DeviceConformance, ServesEarlierClassesFirst) {
  Device& device = open({.depth = 1, .writable = true});
  std::vector<IoRequest> requests;
  const std::array order{IoClass::reclaim, IoClass::write,  IoClass::staged, IoClass::demand,
                         IoClass::demand,  IoClass::staged, IoClass::reclaim};
  for (std::uint64_t i = 0; i < order.size(); ++i) {
    requests.push_back(read(0, i * 8 * KiB, 4 * KiB, i * 4 * KiB, i));
    requests.back().io_class = order[i];
  }
  ASSERT_TRUE(device.submit(requests));
  std::vector<std::uint64_t> tags;
  for (const auto& completion : drain(device, order.size())) tags.push_back(completion.tag);
  EXPECT_EQ(tags, (std::vector<std::uint64_t>{3, 4, 2, 5, 1, 0, 6}));
}

TEST_P(DeviceConformance, TakesAllOrNone) {
  Device& device = open();
  const std::array bad_second{read(0, 0, 4096, 0, 1), read(0, 100, 4096, 4096, 2)};
  EXPECT_EQ(device.submit(bad_second).error().code, Code::invalid);
  std::array<IoCompletion, 4> out;
  EXPECT_EQ(device.wait(out, rig_->now() + std::chrono::seconds(20)), 0U);
  EXPECT_EQ(device.counters().reads, 0U);
}

TEST_P(DeviceConformance, AnswersRetryBeyondItsQueue) {
  Device& device = open({.depth = 2, .queue_max = 4});
  std::vector<IoRequest> five;  // a buffer each: they are in flight together
  for (std::uint64_t i = 0; i < 5; ++i) five.push_back(read(0, 0, 4096, i * 4096, i));
  EXPECT_EQ(device.submit(five).error().code, Code::retry);
  const auto four = std::span(five).first(4);
  ASSERT_TRUE(device.submit(four));
  drain(device, 4);
  EXPECT_TRUE(device.submit(four));
  drain(device, 4);
}

TEST_P(DeviceConformance, RefusesWhatBreaksTheRulesAndSaysWhere) {
  Device& device = open();
  auto off_address = read(0, 0, 4096, 0, 1);
  off_address.buffer = memory_.span().subspan(512, 4096);
  for (const auto& request : {read(0, 512, 4096, 0, 1), read(0, 4096, 1000, 0, 1), read(0, 4096, 0, 0, 1), off_address,
                              read(0, 2 * MiB, 4096, 0, 1), read(1, second_bytes, 4096, 0, 1), read(2, 0, 4096, 0, 1),
                              read(0, UINT64_MAX - 4095, 4096, 0, 1)}) {
    const auto submitted = device.submit(std::span(&request, 1));
    ASSERT_FALSE(submitted) << request.offset;
    EXPECT_EQ(submitted.error().code, Code::invalid);
    const std::string where = request.file == 2 ? "file number 2" : fmt::format("offset {}", request.offset);
    EXPECT_NE(submitted.error().message.find(where), std::string::npos) << submitted.error().message;
  }
}

TEST_P(DeviceConformance, TheEndOfTheFileIsAShortSuccess) {
  Device& device = open();
  const auto tail = finish(device, read(0, 1 * MiB - 4096, 64 * KiB, 0, 9));
  ASSERT_TRUE(tail.status) << tail.status.error().message;
  EXPECT_EQ(tail.bytes, 4096U + 1000U);
  expect_content(0, 1 * MiB - 4096, tail.bytes, 0);
  // and as the last of neighbours
  const std::array pair{read(0, 1 * MiB - 8192, 8192, 0, 1), read(0, 1 * MiB, 4096, 1 * MiB, 2)};
  ASSERT_TRUE(device.submit(pair));
  for (const auto& completion : drain(device, 2)) {
    ASSERT_TRUE(completion.status) << completion.status.error().message;
    EXPECT_EQ(completion.bytes, completion.tag == 1 ? 8192U : 1000U);
  }
  expect_content(0, 1 * MiB, 1000, 1 * MiB);
}

TEST_P(DeviceConformance, AFileThatShrinksIsAnErrorAndNeverASuccess) {
  Device& device = open();
  rig_->shrink(0, 512 * KiB + 100);
  const std::array requests{read(0, 0, 64 * KiB, 0, 1), read(0, 448 * KiB, 64 * KiB, 64 * KiB, 2),
                            read(0, 512 * KiB, 64 * KiB, 128 * KiB, 3), read(0, 576 * KiB, 64 * KiB, 192 * KiB, 4),
                            read(0, 1 * MiB, 4096, 256 * KiB, 5)};
  ASSERT_TRUE(device.submit(requests));
  for (const auto& completion : drain(device, requests.size())) {
    if (completion.tag <= 2) {
      EXPECT_TRUE(completion.status) << completion.status.error().message;
      continue;
    }
    ASSERT_FALSE(completion.status) << completion.tag;
    EXPECT_EQ(completion.status.error().code, Code::device_failed);
    EXPECT_NE(completion.status.error().message.find(fmt::format("offset {}", requests[completion.tag - 1].offset)),
              std::string::npos)
        << completion.status.error().message;
  }
  expect_content(0, 0, 64 * KiB, 0);
  expect_content(0, 448 * KiB, 64 * KiB, 64 * KiB);
}

TEST_P(DeviceConformance, WaitsForNothingWhenThereIsNothing) {
  Device& device = open();
  std::array<IoCompletion, 2> out;
  EXPECT_EQ(device.wait(out, Nanos::max()), 0U);
  EXPECT_EQ(device.poll(out), 0U);
}

TEST_P(DeviceConformance, KeepsToTheDeadline) {
  Device& device = open();
  const auto request = read(0, 0, 64 * KiB, 0, 1);
  ASSERT_TRUE(device.submit(std::span(&request, 1)));
  std::array<IoCompletion, 2> out;
  std::size_t got = device.wait(out, rig_->now());  // over already: what is there or nothing
  EXPECT_LE(got, 1U);
  if (got == 0) got = device.wait(out, Nanos::max());
  EXPECT_EQ(got, 1U);
  EXPECT_EQ(device.wait(out, Nanos::max()), 0U);
}

TEST_P(DeviceConformance, PollingGetsThereToo) {
  Device& device = open({.depth = 2});
  std::vector<IoRequest> requests;
  for (std::uint64_t i = 0; i < 8; ++i) requests.push_back(read(0, i * 8 * KiB, 4 * KiB, i * 4 * KiB, i));
  ASSERT_TRUE(device.submit(requests));
  std::array<IoCompletion, 3> out;
  std::size_t got = 0;
  const Nanos limit = rig_->now() + std::chrono::seconds(20);
  while (got < 8 && rig_->now() < limit) {
    const std::size_t now = device.poll(out);
    EXPECT_LE(now, out.size());
    got += now;
    if (now == 0) device.wait(std::span<IoCompletion>(), limit);  // nothing to take it into: returns at once
    if (now == 0 && rig_->virtual_time()) got += device.wait(out, limit);
  }
  EXPECT_EQ(got, 8U);
}

TEST_P(DeviceConformance, NothingTouchesTheBuffersAfterItIsGone) {
  Device& device = open({.depth = 4});
  std::vector<IoRequest> requests;
  for (std::uint64_t i = 0; i < 16; ++i) requests.push_back(read(0, i * 64 * KiB, 64 * KiB, i * 64 * KiB, i));
  ASSERT_TRUE(device.submit(requests));
  rig_->close();
  std::ranges::fill(memory_.span(), std::byte{0xEE});
  const auto touched = std::ranges::find_if(memory_.span(), [](std::byte b) { return b != std::byte{0xEE}; });
  EXPECT_EQ(touched - memory_.span().begin(), static_cast<std::ptrdiff_t>(memory_.size()));
}

TEST_P(DeviceConformance, WritesAndReadsBack) {
  Device& device = open({.depth = 4, .writable = true});
  std::vector<IoRequest> writes;
  std::ranges::fill(memory_.span().first(256 * KiB), std::byte{0x5A});
  for (std::uint64_t i = 0; i < 8; ++i) {
    writes.push_back(read(0, 256 * KiB + i * 32 * KiB, 32 * KiB, i * 32 * KiB, i));
    writes.back().op = IoOp::write;
    writes.back().io_class = IoClass::write;
  }
  ASSERT_TRUE(device.submit(writes));
  for (const auto& completion : drain(device, 8)) ASSERT_TRUE(completion.status) << completion.status.error().message;
  ASSERT_TRUE(device.flush());
  EXPECT_EQ(device.counters().bytes_written, 256 * KiB);
  ASSERT_TRUE(finish(device, read(0, 192 * KiB, 512 * KiB, 1 * MiB, 1)).status);
  expect_content(0, 192 * KiB, 64 * KiB, 1 * MiB);
  for (std::uint64_t i = 0; i < 256 * KiB; ++i) ASSERT_EQ(memory_.data()[1 * MiB + 64 * KiB + i], std::byte{0x5A});
  expect_content(0, 512 * KiB, 192 * KiB, 1 * MiB + 320 * KiB);
  // a write may not make the file longer
  auto beyond = read(0, 1 * MiB, 4096, 0, 1);
  beyond.op = IoOp::write;
  EXPECT_EQ(device.submit(std::span(&beyond, 1)).error().code, Code::invalid);
}

TEST_P(DeviceConformance, PiecesOfMemoryAreOneRequest) {
  Device& device = open({.depth = 2, .writable = true});
  const auto at = [&](std::uint64_t place, std::uint64_t bytes) { return memory_.span().subspan(place, bytes); };
  // three pieces in a wild order, a neighbour that may join them, and the file's end inside the last piece
  const std::array first{at(512 * KiB, 8 * KiB), at(64 * KiB, 4 * KiB), at(128 * KiB, 20 * KiB)};
  const std::array last{at(2 * MiB, 4 * KiB), at(3 * MiB, 64 * KiB)};
  const std::array requests{IoRequest{.file = 0, .offset = 64 * KiB, .pieces = first, .tag = 1},
                            read(0, 96 * KiB, 16 * KiB, 1 * MiB, 2),
                            IoRequest{.file = 0, .offset = 1 * MiB - 4 * KiB, .pieces = last, .tag = 3}};
  EXPECT_EQ(requests[0].bytes(), 32 * KiB);
  ASSERT_TRUE(device.submit(requests));
  for (const auto& completion : drain(device, 3)) {
    ASSERT_TRUE(completion.status) << completion.status.error().message;
    EXPECT_EQ(completion.bytes, completion.tag == 1 ? 32 * KiB : completion.tag == 2 ? 16 * KiB : 4 * KiB + 1000);
  }
  expect_content(0, 64 * KiB, 8 * KiB, 512 * KiB);
  expect_content(0, 72 * KiB, 4 * KiB, 64 * KiB);
  expect_content(0, 76 * KiB, 20 * KiB, 128 * KiB);
  expect_content(0, 96 * KiB, 16 * KiB, 1 * MiB);
  expect_content(0, 1 * MiB - 4 * KiB, 4 * KiB, 2 * MiB);
  expect_content(0, 1 * MiB, 1000, 3 * MiB);
  IoRequest write{.op = IoOp::write, .file = 0, .offset = 256 * KiB, .pieces = first, .tag = 4};
  ASSERT_TRUE(finish(device, write).status);
  ASSERT_TRUE(finish(device, read(0, 256 * KiB, 32 * KiB, 2 * MiB, 5)).status);
  expect_content(0, 64 * KiB, 32 * KiB, 2 * MiB);
  std::array bad = first;
  bad[1] = at(512, 4 * KiB);
  write.pieces = bad;
  EXPECT_EQ(device.submit(std::span(&write, 1)).error().code, Code::invalid);
}

TEST_P(DeviceConformance, AFlushIsARequestToo) {
  Device& device = open({.depth = 2, .writable = true});
  auto write = read(0, 0, 64 * KiB, 0, 1);
  write.op = IoOp::write;
  ASSERT_TRUE(finish(device, write).status);
  const auto flushed = finish(device, {.op = IoOp::flush, .io_class = IoClass::write, .file = 0, .tag = 7});
  ASSERT_TRUE(flushed.status) << flushed.status.error().message;
  EXPECT_EQ(flushed.tag, 7U);
  EXPECT_EQ(device.counters().writes, 1U);
  EXPECT_EQ(device.counters().in_flight, 0U);
  const IoRequest nowhere{.op = IoOp::flush, .file = 9, .tag = 8};
  EXPECT_EQ(device.submit(std::span(&nowhere, 1)).error().code, Code::invalid);
}

TEST_P(DeviceConformance, WakingHarmsNobody) {
  Device& device = open({.depth = 2});
  device.wake();
  device.wake();
  for (std::uint64_t i = 0; i < 4; ++i) {
    const auto request = read(0, i * 64 * KiB, 64 * KiB, i * 64 * KiB, i);
    ASSERT_TRUE(device.submit(std::span(&request, 1)));
  }
  std::array<IoCompletion, 4> out;
  std::size_t got = 0;
  for (int turns = 0; got < 4 && turns < 100; ++turns) {
    got += device.wait(out, rig_->now() + std::chrono::seconds(20));
    if (turns < 8) device.wake();
  }
  EXPECT_EQ(got, 4U);
}

TEST_P(DeviceConformance, ADiscardedRangeReadsAndItsNeighboursStay) {
  Device& device = open({.writable = true});
  ASSERT_TRUE(device.discard(0, 64 * KiB, 64 * KiB));
  EXPECT_EQ(device.discard(2, 0, 4096).error().code, Code::invalid);
  ASSERT_TRUE(finish(device, read(0, 0, 192 * KiB, 0, 1)).status);
  expect_content(0, 0, 64 * KiB, 0);
  expect_content(0, 128 * KiB, 64 * KiB, 128 * KiB);
  EXPECT_EQ(memory_.data()[64 * KiB + 5], std::byte{0});  // a hole, here
}

TEST_P(DeviceConformance, RegisteredMemoryWorksAsAnyOther) {
  Device& device = open();
  const bool registered = device.register_memory(memory_.span().first(1 * MiB));
  // inside, outside, and neighbours that are half in it
  const std::array requests{read(0, 0, 64 * KiB, 0, 1), read(0, 64 * KiB, 64 * KiB, 2 * MiB, 2),
                            read(0, 128 * KiB, 64 * KiB, 1 * MiB - 32 * KiB, 3)};
  ASSERT_TRUE(device.submit(requests));
  for (const auto& completion : drain(device, 3)) ASSERT_TRUE(completion.status) << completion.status.error().message;
  expect_content(0, 0, 64 * KiB, 0);
  expect_content(0, 64 * KiB, 64 * KiB, 2 * MiB);
  expect_content(0, 128 * KiB, 64 * KiB, 1 * MiB - 32 * KiB);
  if (registered) device.unregister_memory(memory_.span().first(1 * MiB));
  memory_.release(0, 1 * MiB);  // allowed now: what comes next must be seen here
  ASSERT_TRUE(finish(device, read(1, 0, 64 * KiB, 0, 4)).status);
  expect_content(1, 0, 64 * KiB, 0);
}

}  // namespace
}  // namespace artesian
