#include "store/store_files.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <random>
#include <thread>

#include "store/engine_model_rig_test.h"

namespace artesian {
namespace {

class StoreFiles : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    folder_ = testing::TempDir() + "artesian-store-XXXXXX";
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    options_.paths = {{.path = folder_, .bytes = 12 * MiB}};
    options_.geometry = {.segment_bytes = 512 * KiB, .block_bytes_max = 256 * KiB};
    if (GetParam()) options_.key_file = key_file("/key", std::string(32, 'k'));
  }
  void TearDown() override {
    for (const char* name : {"/artesian.store", "/a", "/b", "/key", "/other"}) ::unlink((folder_ + name).c_str());
    ::rmdir(folder_.c_str());
  }
  std::string key_file(const std::string& name, const std::string& text, ::mode_t mode = 0600) {
    std::ofstream(folder_ + name) << text;
    EXPECT_EQ(::chmod((folder_ + name).c_str(), mode), 0);
    return folder_ + name;
  }
  std::uint64_t bytes_on_disk(const std::string& name = "/artesian.store") {
    struct stat facts{};
    EXPECT_EQ(::stat((folder_ + name).c_str(), &facts), 0);
    return std::max<std::uint64_t>(facts.st_size, facts.st_blocks * 512);
  }
  std::unique_ptr<Store> open() {
    auto store = open_store(options_);
    EXPECT_TRUE(store) << store.error().message;
    return store ? std::move(*store) : nullptr;
  }

  std::string folder_;
  StoreFilesOptions options_;
};

TEST_P(StoreFiles, KeepsBlocksAndItsCap) {
  ASSERT_TRUE(create_store(options_, false));
  EXPECT_LE(bytes_on_disk(), 12 * MiB);
  for (std::uint64_t round = 0; round < 3; ++round) {
    const auto store = open();
    OneByOne one(*store, store->open_namespace(some_fields()).value());
    if (round > 0) {
      EXPECT_EQ(one.get(round * 100 - 1), Outcome::hit);
    }
    for (std::uint64_t i = 0; i < 100; ++i) {
      ASSERT_EQ(one.put(round * 100 + i, 200'000), Outcome::stored);
      EXPECT_LE(bytes_on_disk(), 12 * MiB);
    }
    EXPECT_GT(store->stats().evicted, 40U);
  }
  struct stat facts{};
  ASSERT_EQ(::stat((folder_ + "/artesian.store").c_str(), &facts), 0);
  EXPECT_EQ(facts.st_mode & 0777, 0600U);
}

TEST_P(StoreFiles, HasOneOwner) {
  ASSERT_TRUE(create_store(options_, false));
  const auto store = open();
  options_.lock_patience = Nanos{0};
  const auto second = open_store(options_);
  ASSERT_FALSE(second);
  EXPECT_EQ(second.error().code, Code::rejected);
  EXPECT_NE(second.error().message.find("artesian.store"), std::string::npos) << second.error().message;
  EXPECT_EQ(create_store(options_, true).error().code, Code::rejected);
}

TEST_P(StoreFiles, IsNotMadeOverSomethingElse) {
  ASSERT_TRUE(create_store(options_, false));
  EXPECT_EQ(create_store(options_, false).error().code, Code::rejected);
  EXPECT_TRUE(create_store(options_, true));
  options_.paths[0].bytes = 3 * MiB;
  EXPECT_EQ(create_store(options_, true).error().code, Code::invalid);
  options_.paths = {{.path = folder_ + "/a", .bytes = 12 * MiB}};
  EXPECT_EQ(open_store(options_).error().code, Code::not_found);
}

TEST_P(StoreFiles, ASmallerCapHoldsWhenOpenReturnsAndALargerOneGivesRoom) {
  ASSERT_TRUE(create_store(options_, false));
  {
    const auto store = open();
    OneByOne one(*store, store->open_namespace(some_fields()).value());
    for (std::uint64_t i = 0; i < 40; ++i) ASSERT_EQ(one.put(i, 200'000), Outcome::stored);
    ASSERT_TRUE(store->flush());
  }
  options_.paths[0].bytes = 6 * MiB;
  std::uint64_t left = 0;
  {
    const auto store = open();
    EXPECT_LE(bytes_on_disk(), 6 * MiB);
    OneByOne one(*store, store->open_namespace(some_fields()).value());
    for (std::uint64_t i = 0; i < 40; ++i) left += one.get(i) == Outcome::hit ? 1 : 0;
    EXPECT_GT(left, 5U);
    EXPECT_LT(left, 30U);
    for (std::uint64_t i = 100; i < 140; ++i) ASSERT_EQ(one.put(i, 200'000), Outcome::stored);
    EXPECT_LE(bytes_on_disk(), 6 * MiB);
  }
  options_.paths[0].bytes = 20 * MiB;
  const auto store = open();
  EXPECT_GT(bytes_on_disk(), 19 * MiB);
  EXPECT_LE(bytes_on_disk(), 20 * MiB);
  OneByOne one(*store, store->open_namespace(some_fields()).value());
  EXPECT_EQ(one.get(139), Outcome::hit);
  for (std::uint64_t i = 200; i < 250; ++i) ASSERT_EQ(one.put(i, 200'000), Outcome::stored);
  EXPECT_EQ(one.get(200), Outcome::hit);
}

TEST_P(StoreFiles, GoesOnWithoutAPathThatIsGone) {
  options_.paths = {{.path = folder_ + "/a", .bytes = 12 * MiB}, {.path = folder_ + "/b", .bytes = 12 * MiB}};
  ASSERT_TRUE(create_store(options_, false));
  {
    const auto store = open();
    OneByOne one(*store, store->open_namespace(some_fields()).value());
    for (std::uint64_t i = 0; i < 40; ++i) ASSERT_EQ(one.put(i, 100'000), Outcome::stored);
    ASSERT_TRUE(store->flush());
  }
  ::unlink((folder_ + "/a").c_str());
  std::string said;
  options_.engine.report = [&](std::string_view text) { said += text; };
  const auto store = open();
  EXPECT_NE(said.find("/a"), std::string::npos) << said;
  OneByOne one(*store, store->open_namespace(some_fields()).value());
  std::uint64_t hits = 0;
  for (std::uint64_t i = 0; i < 40; ++i) hits += one.get(i) == Outcome::hit ? 1 : 0;
  EXPECT_EQ(hits, 20U);
}

TEST_P(StoreFiles, ThreadsDoEverythingAtOnce) {
  options_.engine.report = nullptr;
  ASSERT_TRUE(create_store(options_, false));
  const auto store = open();
  const NamespaceId ns = store->open_namespace(some_fields()).value();
  std::atomic<std::uint64_t> hits{0}, wrong{0};
  const auto work = [&](unsigned seed) {
    std::mt19937_64 random(seed);
    auto memory = Arena::reserve(4 * 128 * KiB).value();
    for (std::uint64_t step = 0; step < 150 * test_scale(); ++step) {
      std::vector<std::vector<std::byte>> keys;
      std::vector<std::uint64_t> numbers;
      for (std::uint64_t i = 0; i < 4; ++i) keys.push_back(key_of(numbers.emplace_back(random() % 100)));
      const auto slot = [&](std::uint64_t i) { return memory.span().subspan(i * 128 * KiB, 100'000); };
      const std::uint64_t kind = random() % 16;
      if (kind < 6) {
        std::vector<Put> items;
        for (std::uint64_t i = 0; i < 4; ++i) {
          fill_block(numbers[i], random() % 3, slot(i));
          items.push_back({.key = keys[i], .data = slot(i)});
        }
        store->put(ns, items);
      } else if (kind < 13) {
        std::vector<Get> items;
        for (std::uint64_t i = 0; i < 4; ++i) items.push_back({.key = keys[i], .buffer = slot(i)});
        store->get(ns, items);
        for (std::uint64_t i = 0; i < 4; ++i) {
          if (items[i].outcome != Outcome::hit) continue;
          ++hits;
          bool right = false;
          for (std::uint64_t version = 0; version < 3; ++version) {
            right = right || is_block(numbers[i], version, slot(i));
          }
          if (!right) ++wrong;
        }
      } else if (kind == 13) {
        std::vector<Probe> items{{.key = keys[0]}, {.key = keys[1]}};
        store->erase(ns, items);
        store->exists(ns, items);
      } else if (kind == 14) {
        Probe item{.key = keys[0]};
        store->pin(ns, std::span(&item, 1));
        const std::span<const std::byte> key = keys[0];
        if (item.outcome == Outcome::hit) store->unpin(ns, std::span(&key, 1));
        store->stats();
      } else {
        EXPECT_TRUE(store->flush());
      }
    }
  };
  std::vector<std::thread> threads;
  for (unsigned seed = 0; seed < 8; ++seed) threads.emplace_back(work, seed);
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0U);
  EXPECT_GT(hits, 100U);
  EXPECT_EQ(store->stats().corrupt, 0U);
}

struct Footprint {
  std::uint64_t bytes = 0, descriptors = 0;
};

Footprint footprint() {
  std::ifstream statm("/proc/self/statm");
  std::uint64_t all = 0, resident = 0;
  statm >> all >> resident;
  const std::filesystem::directory_iterator open("/proc/self/fd");
  return {.bytes = resident * 4096, .descriptors = static_cast<std::uint64_t>(std::distance(begin(open), end(open)))};
}

// Everything, and opening again and again, for ARTESIAN_SOAK_SECONDS (an hour, say; a second if nobody asks): memory
// and descriptors stay flat.
TEST_P(StoreFiles, ASoakKeepsMemoryAndDescriptorsFlat) {
  const char* text = std::getenv("ARTESIAN_SOAK_SECONDS");
  const auto all = std::chrono::seconds(text != nullptr ? std::max(1L, std::strtol(text, nullptr, 10)) : 1);
  options_.engine.memory_bytes = 2 * MiB;
  ASSERT_TRUE(create_store(options_, false));
  std::uint64_t rounds = 0, hits = 0;
  std::mt19937_64 random(1);
  const auto round = [&] {
    const auto store = open();
    const NamespaceId ns = store->open_namespace(some_fields(fmt::format("model {}", rounds % 8))).value();
    OneByOne one(*store, ns);
    for (int step = 0; step < 200; ++step) {
      const std::uint64_t number = random() % 100;
      if (random() % 2 == 0) one.put(number, 1 + random() % 100'000, random() % 3);
      hits += one.get(random() % 100, {0, 1, 2}) == Outcome::hit ? 1 : 0;
      if (step % 16 == 0) one.erase(number);
      if (step % 16 == 1) one.pin(number);
      if (step % 64 == 63) {
        EXPECT_TRUE(store->flush());
      }
    }
    if (rounds % 8 == 7) {
      EXPECT_TRUE(store->erase_namespace(ns));
    }
    EXPECT_EQ(store->stats().corrupt, 0U);
    ++rounds;
  };
  const auto run = [&](std::chrono::steady_clock::time_point until) {
    do round();
    while (std::chrono::steady_clock::now() < until && !HasFailure());
  };
  const auto begin = std::chrono::steady_clock::now();
  run(begin + all / 3);
  const Footprint warm = footprint();
  run(begin + all);
  const Footprint end = footprint();
  EXPECT_GT(hits, 10 * rounds);
  EXPECT_EQ(end.descriptors, warm.descriptors);
  fmt::print("{} openings, {} and then {} of memory, {} descriptors\n", rounds, format_size(warm.bytes),
             format_size(end.bytes), end.descriptors);
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // they keep what was freed
  EXPECT_LT(end.bytes, warm.bytes + warm.bytes / 10 + 8 * MiB) << "after " << rounds << " openings";
#endif
}

// What the process that is killed has done, seen by the one that is left.
struct Progress {
  std::atomic<std::uint64_t> begun{0};    // puts up to here were begun
  std::atomic<std::uint64_t> durable{0};  // blocks below are flushed
  std::atomic<std::uint64_t> erased{0};   // every third block below is erased, and that is flushed
};

[[noreturn]] void put_until_killed(const StoreFilesOptions& options, Progress& progress, std::uint64_t from) {
  auto store = open_store(options);
  if (!store) ::_exit(1);
  const auto ns = (*store)->open_namespace(some_fields());
  if (!ns) ::_exit(2);
  OneByOne one(**store, *ns);
  for (std::uint64_t number = from;; ++number) {
    progress.begun = number + 1;
    one.put(number, 4096 + number % 7 * 9000);
    if (number % 16 != 15) continue;
    for (std::uint64_t old = number - 15; old <= number; ++old) {
      if (old % 3 == 0) one.erase(old);
    }
    if (!(*store)->flush()) ::_exit(3);
    progress.durable = number + 1;
    progress.erased = number + 1;
  }
}

// The cap is so large that nothing is evicted, or so small that much is.
void kill_again_and_again(StoreFilesOptions options, bool evicts, unsigned seed) {
  void* memory = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  auto& progress = *new (memory) Progress;
  std::mt19937_64 random(seed);
  std::uint64_t from = 0;
  for (std::uint64_t kill = 0; kill < 12 * test_scale(); ++kill) {
    const pid_t child = ::fork();
    ASSERT_GE(child, 0);
    if (child == 0) put_until_killed(options, progress, from);
    // Killed after so many puts and a moment more: where that is in a put, nobody chooses.
    const std::uint64_t enough = from + 20 + random() % 60;
    int status = 0;
    while (progress.begun < enough && ::waitpid(child, &status, WNOHANG) == 0) std::this_thread::yield();
    for (std::uint64_t spin = random() % 200'000; spin > 0; --spin) std::atomic_signal_fence(std::memory_order_seq_cst);
    ::kill(child, SIGKILL);
    ::waitpid(child, &status, 0);
    ASSERT_TRUE(WIFSIGNALED(status)) << "the store's process ended by itself: " << WEXITSTATUS(status);
    auto store = open_store(options);
    ASSERT_TRUE(store) << store.error().message;
    OneByOne one(**store, (*store)->open_namespace(some_fields()).value());
    const std::uint64_t begun = progress.begun, durable = progress.durable;
    for (std::uint64_t number = evicts && begun > 400 ? begun - 400 : 0; number < begun; ++number) {
      const Outcome outcome = one.get(number);
      if (number < progress.erased && number % 3 == 0) {
        EXPECT_EQ(outcome, Outcome::miss) << "erased block " << number << " after kill " << kill;
      } else if (number < durable && !evicts) {
        EXPECT_EQ(outcome, Outcome::hit) << "flushed block " << number << " after kill " << kill;
      } else {
        EXPECT_TRUE(outcome == Outcome::hit || outcome == Outcome::miss) << outcome_name(outcome);
      }
    }
    // From here on the next one goes: what was begun is not put again.
    ASSERT_TRUE((*store)->flush());
    from = align_up(begun, 16);
    progress.begun = progress.durable = progress.erased = 0;
    for (std::uint64_t number = from > 16 ? from - 16 : 0; number < from; ++number) one.erase(number);
    ASSERT_TRUE((*store)->flush());
    store->reset();
    progress.begun = from;
    if (!evicts) {
      ASSERT_TRUE(create_store(options, true));
      from = 0;
      progress.begun = 0;
    }
  }
  ::munmap(memory, 4096);
}

TEST_P(StoreFiles, WhatFlushAcknowledgedSurvivesKill) {
  options_.paths[0].bytes = 30 * MiB;
  ASSERT_TRUE(create_store(options_, false));
  kill_again_and_again(options_, false, 1);
}

TEST_P(StoreFiles, NothingWrongIsFoundAfterKillsDuringReclaim) {
  options_.paths[0].bytes = 5 * MiB;
  ASSERT_TRUE(create_store(options_, false));
  kill_again_and_again(options_, true, 2);
}

TEST_P(StoreFiles, AreRefusedWithAnotherKeyBeforeAnythingIsChanged) {
  ASSERT_TRUE(create_store(options_, false));
  const StoreFilesOptions right = options_;
  {
    const auto store = open();
    OneByOne one(*store, store->open_namespace(some_fields()).value());
    for (std::uint64_t i = 0; i < 40; ++i) ASSERT_EQ(one.put(i, 200'000), Outcome::stored);
  }
  options_.key_file = GetParam() ? "" : key_file("/key", std::string(32, 'k'));
  options_.paths[0].bytes = 6 * MiB;
  for (const bool other : {false, true}) {
    if (other) options_.key_file = key_file("/other", std::string(64, 'a') + "\n");
    const auto refused = open_store(options_);
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, Code::invalid);
    EXPECT_NE(refused.error().message.find("artesian.store"), std::string::npos) << refused.error().message;
    EXPECT_EQ(refused.error().message.find("aaaaaaaa"), std::string::npos) << refused.error().message;
  }
  options_ = right;
  const auto store = open();
  OneByOne one(*store, store->open_namespace(some_fields()).value());
  EXPECT_EQ(one.get(39), Outcome::hit);
  EXPECT_EQ(one.get(20), Outcome::hit);
}

TEST_P(StoreFiles, TakeKeysThatNobodyElseMayRead) {
  for (const std::string& bad :
       {std::string(31, 'a'), std::string(63, 'a'), std::string(64, 'x'), std::string(70, 'a')}) {
    options_.key_file = key_file("/other", bad);
    EXPECT_EQ(create_store(options_, false).error().code, Code::invalid) << bad;
  }
  for (const ::mode_t mode : {0644, 0640, 0602}) {
    options_.key_file = key_file("/other", std::string(64, 'a'), mode);
    EXPECT_EQ(create_store(options_, false).error().code, Code::rejected) << mode;
  }
  options_.key_file = key_file("/other", std::string(64, 'a'));
  ASSERT_TRUE(create_store(options_, false));
  options_.key_file = key_file("/other", std::string(32, '\xaa'));  // the same, as bytes
  EXPECT_TRUE(open_store(options_));
}

INSTANTIATE_TEST_SUITE_P(Stores, StoreFiles, testing::Bool(), StoreKind::name);

}  // namespace
}  // namespace artesian
