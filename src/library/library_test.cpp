// The C library as a caller sees it, on a real file; and the host beneath it.
#include <gtest/gtest.h>
#include <poll.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <thread>
#include <utility>

#include "artesian.h"
#include "library/open.h"

namespace artesian {
namespace {

class Library : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = "library-XXXXXX";  // on the disk of the build: a memory file system may refuse direct reads
    folder_ = std::filesystem::absolute(::mkdtemp(pattern.data()));
    ARTESIAN_INIT(&options_);
    path_ = folder_.c_str();
    options_.paths = &path_;
    options_.caps = &cap_;
    options_.path_count = 1;
    options_.segment_bytes = 1024 * 1024;
    options_.block_bytes_max = 512 * 1024;
    ASSERT_EQ(artesian_create(&options_, 0), ARTESIAN_OK) << artesian_last_error();
    ASSERT_EQ(artesian_open(&options_, &store_), ARTESIAN_OK) << artesian_last_error();
    artesian_namespace fields;
    ARTESIAN_INIT(&fields);
    fields.weights = "sha256:1";
    ASSERT_EQ(artesian_open_namespace(store_, &fields, &ns_), ARTESIAN_OK) << artesian_last_error();
  }
  void TearDown() override {
    artesian_close(store_);
    std::filesystem::remove_all(folder_);
  }

  static artesian_bytes bytes(const std::string& text) { return {text.data(), text.size()}; }
  artesian_put_item put_item(const std::string& key, const artesian_bytes* piece) {
    artesian_put_item item;
    ARTESIAN_INIT(&item);
    item.key = bytes(key);
    item.pieces = piece;
    item.piece_count = 1;
    return item;
  }
  artesian_get_item get_item(const std::string& key, const artesian_memory* piece) {
    artesian_get_item item;
    ARTESIAN_INIT(&item);
    item.key = bytes(key);
    item.pieces = piece;
    item.piece_count = 1;
    return item;
  }

  std::filesystem::path folder_;
  const char* path_ = nullptr;
  std::uint64_t cap_ = 24 * MiB;
  artesian_options options_;
  artesian_store* store_ = nullptr;
  std::uint32_t ns_ = 0;
};

TEST_F(Library, PutsGetsErasesListsAndCounts) {
  const std::string data(100'000, 'x'), key = "a block", parent = "its parent";
  const artesian_bytes piece = bytes(data);
  auto put = put_item(key, &piece);
  put.parent = bytes(parent);
  put.hints.tokens = 128;
  ASSERT_EQ(artesian_put(store_, ns_, &put, 1, nullptr), ARTESIAN_OK) << artesian_last_error();
  EXPECT_EQ(put.outcome, ARTESIAN_STORED);
  std::string room(200'000, ' ');
  const artesian_memory memory{room.data(), room.size()};
  auto get = get_item(key, &memory);
  ASSERT_EQ(artesian_get(store_, ns_, &get, 1, nullptr), ARTESIAN_OK);
  EXPECT_EQ(get.outcome, ARTESIAN_HIT);
  EXPECT_EQ(room.substr(0, get.bytes), data);
  struct Seen {
    std::string key, parent;
    std::uint64_t bytes = 0;
    std::uint32_t tokens = 0;
  } seen;
  const auto each = [](void* context, artesian_bytes k, artesian_bytes p, artesian_bytes, uint64_t size,
                       const artesian_hints* hints) {
    *static_cast<Seen*>(context) = {std::string(static_cast<const char*>(k.data), k.size),
                                    std::string(static_cast<const char*>(p.data), p.size), size, hints->tokens};
    return 1;
  };
  ASSERT_EQ(artesian_list(store_, ns_, each, &seen), ARTESIAN_OK);
  EXPECT_EQ(seen.key, key);
  EXPECT_EQ(seen.parent, parent);
  EXPECT_EQ(seen.bytes, data.size());
  EXPECT_EQ(seen.tokens, 128U);
  const std::array<artesian_bytes, 2> prefix{bytes(key), bytes(parent)};
  EXPECT_EQ(artesian_longest_prefix(store_, ns_, prefix.data(), 2), 1U);
  artesian_key_item erase;
  ARTESIAN_INIT(&erase);
  erase.key = bytes(key);
  ASSERT_EQ(artesian_erase(store_, ns_, &erase, 1), ARTESIAN_OK);
  EXPECT_EQ(erase.outcome, ARTESIAN_HIT);
  ASSERT_EQ(artesian_get(store_, ns_, &get, 1, nullptr), ARTESIAN_OK);
  EXPECT_EQ(get.outcome, ARTESIAN_MISS);
  EXPECT_EQ(artesian_flush(store_), ARTESIAN_OK);
  artesian_stats stats;
  ARTESIAN_INIT(&stats);
  ASSERT_EQ(artesian_get_stats(store_, &stats), ARTESIAN_OK);
  EXPECT_EQ(stats.hits, 1U);
  EXPECT_EQ(stats.erased, 1U);
  EXPECT_LE(stats.capacity_bytes, cap_);
}

TEST_F(Library, BatchesAreAnnouncedByTheirTags) {
  const std::string data(8'192, 'y');
  const artesian_bytes piece = bytes(data);
  std::vector<std::string> keys;
  std::vector<artesian_put_item> items;
  for (int i = 0; i < 20; ++i) keys.push_back("k" + std::to_string(i));
  for (const std::string& key : keys) items.push_back(put_item(key, &piece));
  artesian_batch batch;
  ARTESIAN_INIT(&batch);
  for (std::size_t i = 0; i < 4; ++i) {
    batch.tag = 100 + i;
    ASSERT_EQ(artesian_submit_put(store_, ns_, items.data() + 5 * i, 5, &batch), ARTESIAN_OK);
  }
  std::map<std::uint64_t, int> tags;
  while (tags.size() < 4) {
    pollfd one{.fd = artesian_event_fd(store_), .events = POLLIN};
    ASSERT_EQ(::poll(&one, 1, 10'000), 1);
    std::array<std::uint64_t, 3> some{};
    const std::size_t count = artesian_drain(store_, some.data(), some.size());
    for (std::size_t i = 0; i < count; ++i) ++tags[some[i]];
  }
  EXPECT_EQ(tags, (std::map<std::uint64_t, int>{{100, 1}, {101, 1}, {102, 1}, {103, 1}}));
  for (const auto& item : items) EXPECT_EQ(item.outcome, ARTESIAN_STORED);
  pollfd one{.fd = artesian_event_fd(store_), .events = POLLIN};
  EXPECT_EQ(::poll(&one, 1, 0), 0);
}

TEST_F(Library, ManyThreadsSubmitAtOnce) {
  std::atomic<int> right = 0;
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&, t] {
      for (int i = 0; i < 25; ++i) {
        const std::string key = "t" + std::to_string(t) + "i" + std::to_string(i),
                          data(20'000 + i, static_cast<char>('a' + t));
        const artesian_bytes piece = bytes(data);
        auto put = put_item(key, &piece);
        std::string room(data.size(), ' ');
        const artesian_memory memory{room.data(), room.size()};
        auto get = get_item(key, &memory);
        std::atomic_flag done;
        artesian_batch batch;
        ARTESIAN_INIT(&batch);
        batch.context = &done;
        batch.done = [](void* context) {
          auto& flag = *static_cast<std::atomic_flag*>(context);
          flag.test_and_set();
          flag.notify_one();
        };
        artesian_submit_put(store_, ns_, &put, 1, &batch);
        done.wait(false);
        done.clear();
        artesian_submit_get(store_, ns_, &get, 1, &batch);
        done.wait(false);
        if (get.outcome == ARTESIAN_HIT && room == data) ++right;
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(right, 100);
}

TEST_F(Library, CallersOfOtherVersions) {
  struct Newer {
    artesian_namespace known;
    std::uint64_t later;
  } newer;
  ARTESIAN_INIT(&newer);
  newer.known.weights = "sha256:2";
  std::uint32_t ns = 0;
  EXPECT_EQ(artesian_open_namespace(store_, &newer.known, &ns), ARTESIAN_OK) << artesian_last_error();
  newer.later = 1;
  EXPECT_EQ(artesian_open_namespace(store_, &newer.known, &ns), ARTESIAN_INVALID);
  EXPECT_STREQ(artesian_last_error(), "namespace: asks for what this version of the library does not have");
  newer.known.struct_size = 0;
  EXPECT_EQ(artesian_open_namespace(store_, &newer.known, &ns), ARTESIAN_INVALID);
  artesian_namespace older;
  ARTESIAN_INIT(&older);
  older.struct_size = offsetof(artesian_namespace, dtype);
  older.weights = "sha256:3";
  older.dtype = reinterpret_cast<const char*>(1);  // behind what it has
  EXPECT_EQ(artesian_open_namespace(store_, &older, &ns), ARTESIAN_OK) << artesian_last_error();
}

TEST_F(Library, ErrorsAreACodeAndASentence) {
  artesian_namespace fields;
  ARTESIAN_INIT(&fields);
  std::uint32_t ns = 0;
  EXPECT_EQ(artesian_open_namespace(store_, &fields, &ns), ARTESIAN_INVALID);
  EXPECT_NE(std::string(artesian_last_error()).find("fingerprint of the weights"), std::string::npos);
  artesian_store* second = nullptr;
  options_.lock_wait_ms = 1;
  EXPECT_EQ(artesian_open(&options_, &second), ARTESIAN_REJECTED);
  EXPECT_EQ(second, nullptr);
  artesian_put_item item;
  ARTESIAN_INIT(&item);
  item.struct_size = 8;
  EXPECT_EQ(artesian_put(store_, ns_, &item, 1, nullptr), ARTESIAN_INVALID);
}

TEST_F(Library, NamedPinsOutliveItsOwner) {
  const std::string data(9000, 'x'), key = "block-a", absent = "absent";
  const artesian_bytes piece = bytes(data);
  auto put = put_item(key, &piece);
  ASSERT_EQ(artesian_put(store_, ns_, &put, 1, nullptr), ARTESIAN_OK);
  std::array<artesian_key_item, 2> items;
  for (auto& item : items) ARTESIAN_INIT(&item);
  items[0].key = bytes(key);
  items[1].key = bytes(absent);
  ASSERT_EQ(artesian_pin_named(store_, ns_, "prompt", items.data(), items.size()), ARTESIAN_OK);
  EXPECT_EQ(items[0].outcome, ARTESIAN_HIT);
  EXPECT_EQ(items[1].outcome, ARTESIAN_MISS);
  EXPECT_EQ(artesian_pin_named(store_, ns_, "", items.data(), items.size()), ARTESIAN_INVALID);
  artesian_close(store_);
  ASSERT_EQ(artesian_open(&options_, &store_), ARTESIAN_OK) << artesian_last_error();
  std::map<std::string, std::uint64_t> found;
  const artesian_each_pin each = [](void* context, std::uint32_t, const char* name, std::uint64_t blocks,
                                    std::uint64_t) {
    (*static_cast<std::map<std::string, std::uint64_t>*>(context))[name] = blocks;
    return 1;
  };
  ASSERT_EQ(artesian_list_pins(store_, each, &found), ARTESIAN_OK);
  EXPECT_EQ(found, (std::map<std::string, std::uint64_t>{{"prompt", 1}}));
  artesian_namespace fields;
  ARTESIAN_INIT(&fields);
  fields.weights = "sha256:1";
  ASSERT_EQ(artesian_open_namespace(store_, &fields, &ns_), ARTESIAN_OK);
  EXPECT_EQ(artesian_unpin_named(store_, ns_, "prompt"), ARTESIAN_OK);
  EXPECT_EQ(artesian_unpin_named(store_, ns_, "prompt"), ARTESIAN_NOT_FOUND);
}

TEST_F(Library, ANamespaceNamesItsPolicy) {
  artesian_namespace fields;
  ARTESIAN_INIT(&fields);
  fields.weights = "sha256:policy";
  fields.policy = "unheard of";
  std::uint32_t ns = 0;
  EXPECT_EQ(artesian_open_namespace(store_, &fields, &ns), ARTESIAN_INVALID);
  EXPECT_NE(std::string(artesian_last_error()).find("unheard of"), std::string::npos) << artesian_last_error();
  fields.policy = "second-sighting+clock";
  ASSERT_EQ(artesian_open_namespace(store_, &fields, &ns), ARTESIAN_OK) << artesian_last_error();
  const std::string data(9000, 'x'), key = "seen twice";
  const artesian_bytes piece = bytes(data);
  auto put = put_item(key, &piece);
  ASSERT_EQ(artesian_put(store_, ns, &put, 1, nullptr), ARTESIAN_OK);
  EXPECT_EQ(put.outcome, ARTESIAN_SHED);  // at first sight
  ASSERT_EQ(artesian_put(store_, ns, &put, 1, nullptr), ARTESIAN_OK);
  EXPECT_EQ(put.outcome, ARTESIAN_STORED);
}

TEST_F(Library, ItsOwnerAnswersQuestions) {
  const std::string data(9000, 'x'), key = "block-a", odd("\x00\xff", 2);
  const artesian_bytes piece = bytes(data);
  for (const std::string& one : {key, odd}) {
    auto put = put_item(one, &piece);
    ASSERT_EQ(artesian_put(store_, ns_, &put, 1, nullptr), ARTESIAN_OK);
  }
  const std::string socket = control_socket_of({.path = folder_});
  std::vector<std::string> lines;
  const auto take = [&](std::string_view line) { lines.emplace_back(line); };
  ASSERT_TRUE(ask_owner(socket, {.op = "stat"}, take));
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_NE(lines[0].find("\"blocks\":2"), std::string::npos) << lines[0];
  lines.clear();
  ASSERT_TRUE(ask_owner(socket, {.op = "ls"}, take));
  ASSERT_EQ(lines.size(), 2U);
  const std::string both = lines[0] + lines[1];
  EXPECT_NE(both.find("\"key\":\"block-a\""), std::string::npos) << both;
  EXPECT_NE(both.find("\"key\":\"hex:00ff\""), std::string::npos) << both;
  lines.clear();
  ASSERT_TRUE(ask_owner(socket, {.op = "verify"}, take));
  EXPECT_NE(lines.back().find("\"bad\":0"), std::string::npos) << lines.back();
  const auto wrong = ask_owner(socket, {.op = "erase everything"}, take);
  ASSERT_FALSE(wrong);
  EXPECT_EQ(wrong.error().message, "control: 'erase everything' is no question; stat, ls and verify are");
  artesian_close(store_);
  store_ = nullptr;
  EXPECT_EQ(ask_owner(socket, {.op = "stat"}, take).error().code, Code::not_found);
}

TEST_F(Library, AFutureOfTheHost) {
  artesian_close(store_);
  store_ = nullptr;
  StoreFilesOptions options;
  options.paths.push_back({.path = folder_});
  auto host = open_host(options);
  ASSERT_TRUE(host) << host.error().message;
  StoreHost& store = **host;
  const auto ns = store.store().open_namespace({.weights = "sha256:1"});
  const std::string key = "k";
  const std::vector<std::byte> data(5000, std::byte{7});
  std::array<Put, 1> put{Put{.key = std::as_bytes(std::span(key)), .data = data}};
  store.submit(*ns, std::span<Put>(put)).get();
  EXPECT_EQ(put[0].outcome, Outcome::stored);
}

TEST_F(Library, AnotherProcessWouldAttachByThePath) {
  artesian_store* attached = nullptr;
  EXPECT_EQ(artesian_attach(&options_, &attached), ARTESIAN_NOT_FOUND);  // its owner does not share it
  artesian_close(std::exchange(store_, nullptr));
  options_.share = 1;
  ASSERT_EQ(artesian_open(&options_, &store_), ARTESIAN_OK) << artesian_last_error();
  options_.buffer_bytes = MiB;
  ASSERT_EQ(artesian_attach(&options_, &attached), ARTESIAN_OK) << artesian_last_error();
  artesian_namespace fields;
  ARTESIAN_INIT(&fields);
  fields.weights = "sha256:1";
  std::uint32_t owners = 0, theirs = 0;
  ASSERT_EQ(artesian_open_namespace(store_, &fields, &owners), ARTESIAN_OK);
  ASSERT_EQ(artesian_open_namespace(attached, &fields, &theirs), ARTESIAN_OK);
  const std::string data(100'000, 'x'), key = "a block";
  const artesian_bytes piece = bytes(data);
  auto put = put_item(key, &piece);
  ASSERT_EQ(artesian_put(attached, theirs, &put, 1, nullptr), ARTESIAN_OK);
  EXPECT_EQ(put.outcome, ARTESIAN_STORED);
  std::string room(data.size(), ' ');
  const artesian_memory memory{room.data(), room.size()};
  auto get = get_item(key, &memory);
  ASSERT_EQ(artesian_get(store_, owners, &get, 1, nullptr), ARTESIAN_OK);
  EXPECT_EQ(get.outcome, ARTESIAN_HIT);
  EXPECT_EQ(room, data);
  artesian_close(attached);
}

}  // namespace
}  // namespace artesian
