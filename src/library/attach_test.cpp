// Processes that attach to a store: here several clients in one process, which the owner cannot tell from others.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <mutex>
#include <random>
#include <thread>

#include "library/open.h"
#include "platform/clock.h"
#include "platform/shared_memory.h"
#include "platform/thread_executor.h"
#include "wire/attach_wire.h"

namespace artesian {
namespace {

using namespace std::chrono_literals;

std::vector<std::byte> data_of(std::uint64_t seed, std::size_t size) {
  std::mt19937_64 random(seed);
  std::vector<std::byte> data(size);
  for (auto& value : data) value = static_cast<std::byte>(random());
  return data;
}

std::span<const std::byte> bytes_of(const std::string& text) {
  return std::as_bytes(std::span(text));
}

class Attach : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "attach-XXXXXX";  // on the disk of the build: a memory file system may refuse direct reads
    folder_ = std::filesystem::absolute(::mkdtemp(pattern.data()));
    options_ = {.paths = {{.path = folder_, .bytes = 24 * MiB}},
                .geometry = {.segment_bytes = MiB, .block_bytes_max = 512 * 1024}};
    ASSERT_TRUE(create_store(options_, false));
    options_.paths.front().bytes = 0;
    open();
  }
  void TearDown() override {
    owner_.reset();
    std::filesystem::remove_all(folder_);
  }

  void open() {
    auto owner = open_host(options_, {.share = true});
    ASSERT_TRUE(owner) << owner.error().message;
    owner_ = std::move(*owner);
  }

  std::unique_ptr<StoreHost> client(std::uint64_t buffer_bytes = 4 * MiB) {
    auto attached = attach_host(folder_, buffer_bytes);
    EXPECT_TRUE(attached) << attached.error().message;
    return attached ? std::move(*attached) : nullptr;
  }

  static NamespaceId space(StoreHost& host, const std::string& salt = {}) {
    const auto ns = host.store().open_namespace({.weights = "sha256:1", .salt = salt});
    EXPECT_TRUE(ns) << ns.error().message;
    return ns.value_or(0);
  }
  static Outcome put(StoreHost& host, NamespaceId ns, const std::string& key, std::span<const std::byte> data) {
    Put item{.key = bytes_of(key), .data = data};
    host.store().put(ns, std::span(&item, 1));
    return item.outcome;
  }
  static Outcome get(StoreHost& host, NamespaceId ns, const std::string& key, std::vector<std::byte>& room) {
    Get item{.key = bytes_of(key), .buffer = room};
    host.store().get(ns, std::span(&item, 1));
    if (item.outcome == Outcome::hit) room.resize(item.bytes);
    return item.outcome;
  }

  std::string folder_;
  StoreFilesOptions options_;
  std::unique_ptr<Host> owner_;
};

TEST_F(Attach, WhatOneClientStoresAnotherAndTheOwnerRead) {
  const auto one = client(), other = client();
  const NamespaceId ns = space(*one), same = space(*other), owners = space(*owner_);
  const auto data = data_of(1, 100'001);  // no whole number of pages
  EXPECT_EQ(put(*one, ns, "k", data), Outcome::stored);
  EXPECT_EQ(put(*other, same, "k", data), Outcome::present);
  for (auto* host : {static_cast<StoreHost*>(other.get()), static_cast<StoreHost*>(owner_.get())}) {
    std::vector<std::byte> room(200'000);
    EXPECT_EQ(get(*host, host == other.get() ? same : owners, "k", room), Outcome::hit);
    EXPECT_EQ(room, data);
  }
  std::vector<std::byte> small(100'000);
  EXPECT_EQ(get(*other, same, "k", small), Outcome::invalid);
  EXPECT_EQ(get(*other, same, "another", small), Outcome::miss);
}

TEST_F(Attach, PiecesExtentsLineageAndAttributesGoThrough) {
  const auto one = client();
  const NamespaceId ns = space(*one);
  const auto data = data_of(2, 3 * 4096);
  const std::span<const std::byte> all(data);
  const std::array pieces{all.first(100), all.subspan(100)};
  const std::array<std::uint32_t, 3> extents{4096, 4096, 4096};
  const std::string key = "child", parent("pa\0rent", 7), attributes = "of the caller's";
  Put item{.key = bytes_of(key),
           .parent = bytes_of(parent),
           .attributes = bytes_of(attributes),
           .pieces = pieces,
           .extents = extents,
           .hints = {.session = 7, .position = 3, .tokens = 16, .lifetime = 2}};
  one->store().put(ns, std::span(&item, 1));
  ASSERT_EQ(item.outcome, Outcome::stored);
  std::vector<BlockFacts> listed;
  ASSERT_TRUE(one->store().list(ns, [&](const BlockFacts& facts) {
    listed.push_back(facts);
    return true;
  }));
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_TRUE(std::ranges::equal(listed[0].parent, bytes_of(parent)));
  EXPECT_TRUE(std::ranges::equal(listed[0].attributes, bytes_of(attributes)));
  EXPECT_EQ(listed[0].hints.session, 7U);
  EXPECT_EQ(listed[0].hints.position, 3U);
  EXPECT_EQ(listed[0].hints.lifetime, 2U);
  std::vector<std::byte> back(data.size());
  const std::array rooms{std::span(back).first(5000), std::span(back).subspan(5000)};
  Get got{.key = bytes_of(key), .pieces = rooms};
  one->store().get(ns, std::span(&got, 1));
  EXPECT_EQ(got.outcome, Outcome::hit);
  EXPECT_EQ(back, data);
}

TEST_F(Attach, NamedPinsOutliveTheClientThatMadeThem) {
  const auto data = data_of(4, 8192);
  const std::string key = "k", absent = "absent";
  {
    const auto one = client();
    const NamespaceId other = space(*one, "another"), ns = space(*one);  // numbered otherwise than by the owner
    EXPECT_EQ(put(*one, ns, "k", data), Outcome::stored);
    EXPECT_EQ(put(*one, other, "k", data), Outcome::stored);
    std::array<Probe, 2> items{Probe{.key = bytes_of(key)}, Probe{.key = bytes_of(absent)}};
    ASSERT_TRUE(one->store().pin_named(ns, "prompt", items));
    EXPECT_EQ(items[0].outcome, Outcome::hit);
    EXPECT_EQ(items[1].outcome, Outcome::miss);
    EXPECT_EQ(one->store().pin_named(ns, "", items).error().code, Code::invalid);
    ASSERT_TRUE(one->store().pin_named(other, "theirs", std::span(items).first(1)));
    EXPECT_EQ(one->store().named_pins().size(), 2U);
  }
  const auto next = client();
  EXPECT_TRUE(next->store().named_pins().empty());  // of namespaces that it has not opened
  const NamespaceId ns = space(*next);
  const auto pins = next->store().named_pins();
  ASSERT_EQ(pins.size(), 1U);
  EXPECT_EQ(pins[0].ns, ns);
  EXPECT_EQ(pins[0].name, "prompt");
  EXPECT_EQ(pins[0].blocks, 1U);
  EXPECT_EQ(pins[0].bytes, 3U * 4096);
  EXPECT_TRUE(next->store().unpin_named(ns, "prompt"));
  EXPECT_EQ(next->store().unpin_named(ns, "prompt").error().code, Code::not_found);
  EXPECT_EQ(next->store().unpin_named(99, "prompt").error().code, Code::invalid);
}

TEST_F(Attach, QuestionsAreAnsweredAsByTheStoreItself) {
  const auto one = client();
  const NamespaceId ns = space(*one);
  const auto data = data_of(3, 8192);
  std::vector<std::string> names;
  for (int i = 0; i < 5; ++i) names.push_back("k" + std::to_string(i));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(put(*one, ns, names[i], data), Outcome::stored);
  std::vector<std::span<const std::byte>> keys;
  std::vector<Probe> probes;
  for (const auto& name : names) keys.push_back(bytes_of(name));
  for (const auto& key : keys) probes.push_back({.key = key});
  EXPECT_EQ(one->store().longest_prefix(ns, keys), 3U);
  one->store().exists(ns, probes);
  EXPECT_EQ(probes[2].outcome, Outcome::hit);
  EXPECT_EQ(probes[3].outcome, Outcome::miss);
  one->store().erase(ns, std::span(probes).first(1));
  EXPECT_EQ(one->store().longest_prefix(ns, keys), 0U);
  EXPECT_TRUE(one->store().flush());
  EXPECT_EQ(one->store().stats().blocks, 2U);
  EXPECT_EQ(one->store().stats().stored, 3U);
  const auto report = one->store().verify({});
  ASSERT_TRUE(report);
  EXPECT_EQ(report->blocks, 2U);
  ASSERT_EQ(one->store().namespaces().size(), 1U);
  EXPECT_NE(one->store().namespaces()[0].text.find("sha256:1"), std::string::npos);
  EXPECT_TRUE(one->store().erase_namespace(ns));
  std::vector<std::byte> room(8192);
  EXPECT_EQ(get(*one, ns, "k1", room), Outcome::miss);
  EXPECT_FALSE(one->store().open_namespace({}));  // without a fingerprint
}

TEST_F(Attach, MoreDataThanTheSharedMemoryHolds) {
  const auto one = client(MiB);
  const NamespaceId ns = space(*one);
  constexpr std::size_t count = 32, size = 300'000;
  std::vector<std::string> names;
  std::vector<std::vector<std::byte>> data;
  for (std::size_t i = 0; i < count; ++i) {
    names.push_back("k" + std::to_string(i));
    data.push_back(data_of(i, size));
  }
  std::vector<Put> puts;
  for (std::size_t i = 0; i < count; ++i) puts.push_back({.key = bytes_of(names[i]), .data = data[i]});
  one->store().put(ns, puts);
  std::vector<std::vector<std::byte>> rooms(count, std::vector<std::byte>(size));
  std::vector<Get> gets;
  for (std::size_t i = 0; i < count; ++i) gets.push_back({.key = bytes_of(names[i]), .buffer = rooms[i]});
  one->store().get(ns, gets);
  for (std::size_t i = 0; i < count; ++i) {
    EXPECT_EQ(puts[i].outcome, Outcome::stored) << i;
    EXPECT_EQ(gets[i].outcome, Outcome::hit) << i;
    EXPECT_EQ(rooms[i], data[i]) << i;
  }
  const auto large = data_of(99, 2 * MiB);
  EXPECT_EQ(put(*one, ns, "too large", large), Outcome::invalid);
}

TEST_F(Attach, ManyClientsAtOnceGetTheirOwnBlocks) {
  constexpr int clients = 4, rounds = 40;
  std::atomic<int> wrong = 0, hits = 0;
  std::vector<std::thread> threads;
  for (int c = 0; c < clients; ++c) {
    threads.emplace_back([&, c] {
      const auto mine = client(2 * MiB);
      const NamespaceId ns = space(*mine, "tenant " + std::to_string(c));
      for (int i = 0; i < rounds; ++i) {
        const std::string key = "k" + std::to_string(i);
        const auto data = data_of(static_cast<std::uint64_t>(i * clients + c), 50'000);
        put(*mine, ns, key, data);
        std::vector<std::byte> room(60'000);
        const Outcome outcome = get(*mine, ns, key, room);
        if (outcome == Outcome::hit) ++hits;
        if (outcome == Outcome::hit && room != data) ++wrong;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_EQ(hits, clients * rounds);
}

TEST_F(Attach, PinsDieWithTheirClient) {
  auto one = client();
  const NamespaceId ns = space(*one);
  EXPECT_EQ(put(*one, ns, "k", data_of(4, 8192)), Outcome::stored);
  const std::string key = "k";
  Probe probe{.key = bytes_of(key)};
  one->store().pin(ns, std::span(&probe, 1));
  one->store().pin(ns, std::span(&probe, 1));
  EXPECT_EQ(probe.outcome, Outcome::hit);
  EXPECT_EQ(owner_->store().stats().pinned, 1U);
  const auto other = client();
  const std::span<const std::byte> name = bytes_of(key);
  other->store().unpin(space(*other), std::span(&name, 1));  // not its own: nothing happens
  EXPECT_EQ(owner_->store().stats().pinned, 1U);
  one.reset();
  owner_->settle();
  for (int i = 0; i < 500 && owner_->store().stats().pinned > 0; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(owner_->store().stats().pinned, 0U);
}

TEST_F(Attach, GoesOnWhenTheOwnerIsBackAndFailsMeanwhile) {
  const auto one = client();
  const NamespaceId first = space(*one, "first"), ns = space(*one, "second");
  const auto data = data_of(5, 20'000);
  EXPECT_EQ(put(*one, ns, "k", data), Outcome::stored);
  ASSERT_TRUE(one->store().flush());
  owner_.reset();
  std::vector<std::byte> room(20'000, std::byte{1});
  for (int i = 0; i < 500 && get(*one, ns, "k", room) == Outcome::hit; ++i) std::this_thread::sleep_for(10ms);
  EXPECT_EQ(get(*one, ns, "k", room), Outcome::failed);
  EXPECT_EQ(room, std::vector<std::byte>(20'000));
  EXPECT_EQ(put(*one, ns, "other", data), Outcome::rejected);
  const std::string key = "k";
  const std::span<const std::byte> name = bytes_of(key);
  EXPECT_EQ(one->store().longest_prefix(ns, std::span(&name, 1)), 0U);
  EXPECT_FALSE(one->store().flush());
  open();
  for (int i = 0; i < 1000 && get(*one, ns, "k", room) != Outcome::hit; ++i) std::this_thread::sleep_for(10ms);
  room.assign(20'000, std::byte{1});
  EXPECT_EQ(get(*one, ns, "k", room), Outcome::hit);
  EXPECT_EQ(room, data);
  EXPECT_EQ(get(*one, first, "k", room), Outcome::miss);
}

TEST_F(Attach, NobodyThereIsToldAtOnce) {
  owner_.reset();
  const auto none = attach_host(folder_);
  ASSERT_FALSE(none);
  EXPECT_EQ(none.error().code, Code::not_found);
}

// A connection by hand, which says what it likes.
class Rude {
 public:
  explicit Rude(const std::string& path, bool greets = true) : fd_(::socket(AF_UNIX, SOCK_STREAM, 0)) {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::ranges::copy(path, address.sun_path);
    EXPECT_EQ(::connect(fd_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    if (!greets) return;
    auto memory = SharedMemory::create(64 * 1024);
    EXPECT_TRUE(memory && memory->send(fd_, attach::greeting()));
    EXPECT_GT(answer(), 0);
  }
  ~Rude() { ::close(fd_); }
  void say(std::span<const std::byte> bytes) { (void)!::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL); }
  // Bytes that come, 0 where the connection is closed.
  ssize_t answer() {
    std::array<std::byte, 65'536> some;
    return ::recv(fd_, some.data(), some.size(), 0);
  }

 private:
  int fd_;
};

TEST_F(Attach, HostileClientsAreCutOffAndOthersDoNotNotice) {
  const auto good = client();
  const NamespaceId ns = space(*good);
  EXPECT_EQ(put(*good, ns, "k", data_of(6, 8192)), Outcome::stored);
  const std::string socket = attach_socket_of({.path = folder_});
  const std::string key = "k";
  attach::Request open{.op = attach::Op::open_namespace, .fields = {.weights = "sha256:1"}};
  attach::Request outside{.op = attach::Op::get, .items = {{.key = bytes_of(key), .offset = 61'440, .bytes = 8192}}};
  attach::Request odd{.op = attach::Op::get, .items = {{.key = bytes_of(key), .offset = 8, .bytes = 8}}};
  attach::Request wrapping{.op = attach::Op::put,
                           .items = {{.key = bytes_of(key), .offset = UINT64_MAX - 4095, .bytes = 8192}}};
  for (const auto& request : {outside, odd, wrapping}) {
    Rude rude(socket);
    rude.say(attach::encode(open));
    EXPECT_GT(rude.answer(), 0);
    rude.say(attach::encode(request));
    EXPECT_LE(rude.answer(), 0);
  }
  {
    Rude rude(socket);
    rude.say(std::vector<std::byte>(64, std::byte{0xff}));  // a frame of 4 GiB
    EXPECT_LE(rude.answer(), 0);
  }
  {
    Rude rude(socket);
    rude.say(std::vector<std::byte>{std::byte{2}, {}, {}, {}, std::byte{99}, {}});  // an unknown kind
    EXPECT_LE(rude.answer(), 0);
  }
  {
    Rude rude(socket, false);  // no memory beside its greeting: told so, and cut off
    rude.say(attach::greeting());
    EXPECT_GT(rude.answer(), 0);
    EXPECT_LE(rude.answer(), 0);
  }
  std::vector<std::byte> room(8192);
  EXPECT_EQ(get(*good, ns, "k", room), Outcome::hit);
  EXPECT_EQ(room, data_of(6, 8192));
}

TEST_F(Attach, ANamespaceThatItDidNotOpenIsNoClientsToUse) {
  const auto good = client();
  const NamespaceId ns = space(*good, "a secret");
  EXPECT_EQ(put(*good, ns, "k", data_of(7, 8192)), Outcome::stored);
  Rude rude(attach_socket_of({.path = folder_}));
  const std::string key = "k";
  const auto owners = owner_->store().open_namespace({.weights = "sha256:1", .salt = "a secret"});
  ASSERT_TRUE(owners);
  rude.say(attach::encode(
      {.op = attach::Op::get, .id = 9, .ns = *owners, .items = {{.key = bytes_of(key), .bytes = 8192}}}));
  EXPECT_GT(rude.answer(), 0);
  EXPECT_EQ(owner_->store().stats().hits, 0U);
}

// An owner that takes requests and answers none until it is told to.
class Silent final : public StoreHost {
 public:
  explicit Silent(StoreHost& real) : real_(real) {}
  Store& store() override { return real_.store(); }
  void submit(NamespaceId ns, std::span<Put> items, const Batch& batch, std::function<void()> done) override {
    real_.submit(ns, items, batch, std::move(done));
  }
  void submit(NamespaceId, std::span<Get> items, const Batch&, std::function<void()> done) override {
    const std::lock_guard lock(mutex_);
    for (Get& item : items) item.outcome = Outcome::miss;
    held_.push_back(std::move(done));
  }
  void stage(NamespaceId ns, std::span<Probe> items, const Batch& batch, std::function<void()> done) override {
    real_.stage(ns, items, batch, std::move(done));
  }
  void announce(std::uint64_t) override {}
  int event_fd() const override { return -1; }
  std::size_t drain(std::span<std::uint64_t>) override { return 0; }
  void settle() override { real_.settle(); }
  std::size_t speak() {
    const std::lock_guard lock(mutex_);
    const std::size_t count = held_.size();
    for (const auto& done : held_) done();
    held_.clear();
    return count;
  }

 private:
  StoreHost& real_;
  std::mutex mutex_;
  std::vector<std::function<void()>> held_;
};

TEST_F(Attach, ASilentOwnerMeansLateNotForEver) {
  Silent silent(*owner_);
  auto threads = ThreadExecutor::open(AttachServer::threads);
  const std::string socket = folder_ + "/silent";
  auto server = AttachServer::start(silent, socket, std::move(*threads));
  ASSERT_TRUE(server) << server.error().message;
  const SteadyClock clock;
  auto one = attach_store({.socket = socket, .buffer_bytes = MiB, .patience = 100ms}, clock,
                          std::move(*ThreadExecutor::open(1)));
  ASSERT_TRUE(one) << one.error().message;
  const NamespaceId ns = space(**one);
  const std::string key = "k";
  std::vector<std::byte> room(MiB, std::byte{1});  // all of the shared memory
  Get first{.key = bytes_of(key), .buffer = room};
  (*one)->store().get(ns, std::span(&first, 1));  // without a deadline: its patience ends
  EXPECT_EQ(first.outcome, Outcome::failed);
  Get second{.key = bytes_of(key), .buffer = room};  // finds no room: the owner may still write there
  (*one)->store().get(ns, std::span(&second, 1), {.deadline = clock.now() + 50ms});
  EXPECT_EQ(second.outcome, Outcome::late);
  EXPECT_EQ(silent.speak(), 1U);
  Get third{.key = bytes_of(key), .buffer = room};
  std::thread speaks([&] {
    while (silent.speak() == 0) std::this_thread::sleep_for(1ms);
  });
  (*one)->store().get(ns, std::span(&third, 1), {.deadline = clock.now() + 10s});
  speaks.join();
  EXPECT_EQ(third.outcome, Outcome::miss);
  one->reset();
}

}  // namespace
}  // namespace artesian
