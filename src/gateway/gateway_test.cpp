// The gateway before a server without a model, on one loop that the test runs.
#include "gateway/gateway.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/beast/http/read.hpp>
#include <boost/beast/http/write.hpp>
#include <filesystem>
#include <fstream>
#include <list>
#include <map>

#include "gateway/fake_server_test.h"
#include "gateway/front.h"
#include "platform/clock.h"
#include "platform/process.h"
#include "platform/thread_executor.h"
#include "store/store_files.h"

namespace artesian {
namespace {

namespace net = boost::asio;
namespace http = boost::beast::http;
using namespace std::chrono_literals;
using testing::HasSubstr;

struct Said {
  unsigned status = 0;
  nlohmann::json body;
  std::uint64_t cached() const {
    if (body.contains("usage")) return body["usage"].at("cache_read_input_tokens").get<std::uint64_t>();
    return body.at("timings").at("cache_n").get<std::uint64_t>();
  }
};

std::string long_text(char first, std::size_t bytes) {
  std::string text;
  for (std::size_t i = 0; i < bytes; ++i) text += static_cast<char>('a' + (first + i * i) % 26);
  return text;
}

// A store that counts how often it is told of a prompt, and of what is to come.
class CountingStore final : public Store {
 public:
  explicit CountingStore(std::unique_ptr<Store> store) : store_(std::move(store)) {}
  std::size_t prompts = 0;
  std::map<Outlook, std::size_t> expected;  // blocks of which something was said

  std::size_t longest_prefix(NamespaceId ns, std::span<const std::span<const std::byte>> keys) override {
    ++prompts;
    return store_->longest_prefix(ns, keys);
  }
  Result<NamespaceId> open_namespace(const NamespaceFields& fields) override { return store_->open_namespace(fields); }
  std::vector<NamespaceFacts> namespaces() override { return store_->namespaces(); }
  Status erase_namespace(NamespaceId ns) override { return store_->erase_namespace(ns); }
  void submit(NamespaceId ns, std::span<Put> items, const Batch& batch, std::function<void()> done) override {
    store_->submit(ns, items, batch, std::move(done));
  }
  void submit(NamespaceId ns, std::span<Get> items, const Batch& batch, std::function<void()> done) override {
    store_->submit(ns, items, batch, std::move(done));
  }
  void stage(NamespaceId ns, std::span<Probe> items, const Batch& batch, std::function<void()> done) override {
    store_->stage(ns, items, batch, std::move(done));
  }
  void poll() override { store_->poll(); }
  void wait(Nanos until) override { store_->wait(until); }
  Nanos now() const override { return store_->now(); }
  void put(NamespaceId ns, std::span<Put> items, const Batch& batch) override { store_->put(ns, items, batch); }
  void get(NamespaceId ns, std::span<Get> items, const Batch& batch) override { store_->get(ns, items, batch); }
  void exists(NamespaceId ns, std::span<Probe> items) override { store_->exists(ns, items); }
  void erase(NamespaceId ns, std::span<Probe> items) override { store_->erase(ns, items); }
  void expect(NamespaceId ns, std::span<const std::span<const std::byte>> keys, Outlook outlook) override {
    expected[outlook] += keys.size();
    store_->expect(ns, keys, outlook);
  }
  void pin(NamespaceId ns, std::span<Probe> items) override { store_->pin(ns, items); }
  void unpin(NamespaceId ns, std::span<const std::span<const std::byte>> keys) override { store_->unpin(ns, keys); }
  Status flush() override { return store_->flush(); }
  Status list(NamespaceId ns, const std::function<bool(const BlockFacts&)>& each) override {
    return store_->list(ns, each);
  }
  Result<VerifyReport> verify(const std::function<void(const VerifyReport&)>& progress) override {
    return store_->verify(progress);
  }
  StoreStats stats() const override { return store_->stats(); }

 private:
  std::unique_ptr<Store> store_;
};

class GatewayTest : public testing::Test {
 protected:
  // A server and the gateway before it; the store stays.
  struct World {
    std::optional<Staging> staging;
    std::unique_ptr<FakeServer> server;
    std::unique_ptr<Gateway> gateway;
    std::unique_ptr<Front> front;
    std::unique_ptr<Upstream> client;
  };

  void SetUp() override {
    folder_ = std::filesystem::temp_directory_path() / fmt::format("artesian-gateway-test-{}", own_pid());
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ / "slots");
    std::ofstream(folder_ / "slots" / "model.gguf") << "weights";
    files_.geometry = {.segment_bytes = 1 * MiB, .block_bytes_max = 128 * KiB};
    files_.paths = {{.path = (folder_ / "kv").string(), .bytes = 16 * MiB}};
    ASSERT_TRUE(create_store(files_, false));
    reopen_store();
    worker_ = std::move(*ThreadExecutor::open(2));
  }
  void TearDown() override {
    worker_.reset();
    for (World& world : worlds_) {
      world.front.reset();
      world.server.reset();
    }
    loop_.reset();  // coroutines that are left refer to the gateways
    worlds_.clear();
    store_.reset();
    std::filesystem::remove_all(folder_);
  }

  void reopen_store() {
    if (store_) {
      ASSERT_TRUE(store_->flush());
    }
    store_.reset();
    auto store = open_store(files_);
    ASSERT_TRUE(store) << store.error().message;
    store_ = std::make_unique<CountingStore>(std::move(*store));
  }

  // Before the gateway looks at it, `prepare` may set the server's faults.
  void start(int slots = 2, const std::function<void(FakeServer&)>& prepare = {}) {
    const auto executor = loop_->get_executor();
    World& world = worlds_.emplace_back();
    world.staging.emplace(std::move(*Staging::use((folder_ / "slots").string(), 64 * MiB)));
    world.server = std::make_unique<FakeServer>(executor, world.staging->folder(), slots);
    ASSERT_TRUE(world.server->start());
    if (prepare) prepare(*world.server);
    settings_.report = [this](std::string_view sentence) { reports_.emplace_back(sentence); };
    world.gateway = std::make_unique<Gateway>(Gateway::Parts{executor, *worker_, *store_, clock_, *world.staging},
                                              *parse_address(world.server->url()), settings_);
    world.front = std::make_unique<Front>(executor, HttpLimits{}, [&world](Stream& client, Request& request) {
      return world.gateway->handle(client, request);
    });
    ASSERT_TRUE(world.front->listen("127.0.0.1", 0));
    world.front->start();
    const auto address = parse_address("http://127.0.0.1:" + std::to_string(world.front->port()));
    world.client = std::make_unique<Upstream>(executor, *address, HttpLimits{});
    wait_for(world.gateway->attach());
  }

  // Saves everything, then another gateway and another server over the same store.
  void restart(int slots = 2, const std::function<void(FakeServer&)>& prepare = {}) {
    wait_for(world().gateway->finish(10s));
    EXPECT_THAT(world().server->wrong_rows, testing::IsEmpty());
    world().front->stop();
    world().server->stop();
    reopen_store();
    start(slots, prepare);
  }

  void run_until(const std::function<bool()>& done) {
    while (!done()) {
      loop_->restart();
      ASSERT_GT(loop_->run_one_for(20s), 0U) << "nothing happens any more";
    }
  }
  void wait_for(Task<void> task) {
    bool done = false;
    net::co_spawn(*loop_, std::move(task), [&done](const std::exception_ptr& error) {
      done = true;
      if (error) std::rethrow_exception(error);
    });
    run_until([&done] { return done; });
  }

  Task<void> post(std::string body, std::string key, std::optional<Said>& said, std::string path = "/completion") {
    auto answer = co_await world().client->ask("POST", std::move(path), std::move(body), std::move(key), 60s);
    said = answer ? Said{answer->status, nlohmann::json::parse(answer->body, nullptr, false)} : Said{};
  }
  Task<void> get(std::string method, std::string path, std::optional<Said>& said) {
    auto answer = co_await world().client->ask(std::move(method), std::move(path), "", "", 60s);
    said = answer ? Said{answer->status, nlohmann::json::parse(answer->body, nullptr, false)} : Said{};
  }
  Said ask(const std::string& prompt, const std::string& key = "",
           const nlohmann::json& more = nlohmann::json::object()) {
    nlohmann::json body = more;
    body["prompt"] = prompt;
    std::optional<Said> said;
    wait_for(post(body.dump(), key, said));
    return *said;
  }
  using Headers = std::map<std::string, std::string>;
  Task<void> post_with(const Headers& headers, std::string path, std::string body, std::optional<Said>& said) {
    Stream stream(loop_->get_executor());
    const auto address = parse_address("http://127.0.0.1:" + std::to_string(world().front->port()));
    co_await stream.async_connect(address->endpoint, net::use_awaitable);
    Request request(http::verb::post, path, 11);
    for (const auto& [name, value] : headers) request.set(name, value);
    request.body() = std::move(body);
    request.keep_alive(false);
    request.prepare_payload();
    co_await http::async_write(stream, request, net::use_awaitable);
    boost::beast::flat_buffer buffer;
    Response response;
    co_await http::async_read(stream, buffer, response, net::use_awaitable);
    said = Said{response.result_int(), nlohmann::json::parse(response.body(), nullptr, false)};
  }
  Said say(const Headers& headers, const std::string& path, const std::string& body = "") {
    std::optional<Said> said;
    wait_for(post_with(headers, path, body, said));
    return *said;
  }
  Said ask_with(const Headers& headers, const std::string& prompt) {
    return say(headers, "/completion", nlohmann::json{{"prompt", prompt}}.dump());
  }
  void wait_until_saved() {
    run_until([this] {
      const auto now = status();
      return now["saving"] == 0 && now["slots"].dump().find("true") == std::string::npos;
    });
  }

  // The server takes a slot of its own choice for it.
  Said message(const std::string& text) {
    const nlohmann::json block{{"type", "text"}, {"text", text}};
    const nlohmann::json turn{{"role", "user"}, {"content", nlohmann::json::array({block})}};
    const nlohmann::json body{{"max_tokens", 8}, {"messages", nlohmann::json::array({turn})}};
    std::optional<Said> said;
    wait_for(post(body.dump(), "", said, "/v1/messages"));
    return *said;
  }
  Said call(const std::string& method, const std::string& path) {
    std::optional<Said> said;
    wait_for(get(method, path, said));
    return *said;
  }
  nlohmann::json status() { return nlohmann::json::parse(world().gateway->status_json()); }
  World& world() { return worlds_.back(); }

  std::filesystem::path folder_;
  StoreFilesOptions files_;
  SteadyClock clock_;
  GatewaySettings settings_;
  std::vector<std::string> reports_;
  std::unique_ptr<ThreadExecutor> worker_;
  std::unique_ptr<CountingStore> store_;
  std::list<World> worlds_;  // those before the last one have no server any more
  std::unique_ptr<net::io_context> loop_ = std::make_unique<net::io_context>(1);
};

TEST_F(GatewayTest, AContextSurvivesARestartOfEverything) {
  start();
  EXPECT_EQ(status()["state"], "ready");
  const std::string prompt = long_text('a', 700);
  EXPECT_EQ(ask(prompt).cached(), 0U);
  restart();
  // The slot held the prompt and the answer; what goes on behind it has all of that from the store.
  EXPECT_EQ(ask(prompt + "!and more").cached(), 701U);
  EXPECT_EQ(status()["restored_tokens"], 701);
  restart(1);
  EXPECT_EQ(ask(prompt + "!and more").cached(), 708U);
}

TEST_F(GatewayTest, AnotherConversationHasWhatItShares) {
  start();
  const std::string shared = long_text('a', 400);
  ask(shared + long_text('b', 300));
  restart();
  const auto before = status()["saved_bytes"];
  EXPECT_EQ(before, 0);
  EXPECT_EQ(ask(shared + "#" + long_text('c', 300)).cached(), 400U);
  restart();
  EXPECT_EQ(ask(shared + long_text('b', 300) + "?").cached(), 700U);
  EXPECT_EQ(ask(shared + "#" + long_text('c', 300) + "?").cached(), 701U);
}

TEST_F(GatewayTest, WhatASlotHoldsIsNotReadBack) {
  start();
  const std::string prompt = long_text('a', 500);
  ask(prompt);
  EXPECT_EQ(ask(prompt + "!x").cached(), 501U);
  EXPECT_EQ(status()["restores"], 0);
}

TEST_F(GatewayTest, AMessageIsRestoredIntoTheSlotThatTheServerTakes) {
  start(3);
  const std::string prompt = long_text('a', 700), other = long_text('b', 500);
  EXPECT_EQ(message(prompt).cached(), 0U);
  ask(other);
  restart(3);
  EXPECT_EQ(ask(other + "!more").cached(), 501U);
  EXPECT_EQ(message(prompt + "!and more").cached(), 701U);
  wait_until_saved();  // a slot that is being saved is nobody's
  EXPECT_EQ(status()["restored_tokens"], 501 + 701);
  // What the other slot holds is still known: nothing is read back for it.
  EXPECT_EQ(ask(other + "!more!").cached(), 505U);
  EXPECT_EQ(status()["restores"], 2);
  wait_until_saved();
  EXPECT_EQ(message(prompt + "!and more!").cached(), 709U);
  EXPECT_EQ(status()["restores"], 2);
}

TEST_F(GatewayTest, TenantsSeeNothingOfEachOther) {
  start();
  const std::string prompt = long_text('a', 500);
  ask(prompt, "Bearer one");
  EXPECT_EQ(ask(prompt, "Bearer two").cached(), 0U);
  restart(1);
  EXPECT_EQ(ask(prompt, "Bearer three").cached(), 0U);
  EXPECT_EQ(ask(prompt, "Bearer one", {{"cache_salt", "s"}}).cached(), 0U);
  EXPECT_EQ(ask(prompt, "Bearer one").cached(), 499U);
}

TEST_F(GatewayTest, OtherWeightsUnderTheSameNameFindNothing) {
  start();
  const std::string prompt = long_text('a', 500);
  ask(prompt);
  restart(2, [](FakeServer& server) { server.weights = "others"; });
  EXPECT_EQ(ask(prompt).cached(), 0U);
  restart(2, [this](FakeServer&) { std::ofstream(folder_ / "slots" / "model.gguf") << "others"; });
  EXPECT_EQ(ask(prompt).cached(), 0U);
}

TEST_F(GatewayTest, ContextsAreListedAndErased) {
  start();
  const std::string shared = long_text('a', 400);
  ask(shared + long_text('b', 300));
  ask(shared + "#" + long_text('c', 300));
  wait_for(world().gateway->finish(10s));
  const auto list = call("GET", "/artesian/contexts").body.at("contexts");
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0]["shared_tokens"], 384);
  const std::string id = list[0]["id"];
  EXPECT_EQ(call("POST", "/artesian/contexts/" + id + "/pin").status, 200U);
  EXPECT_EQ(call("GET", "/artesian/contexts").body["contexts"][0]["pinned"], true);
  EXPECT_EQ(call("POST", "/artesian/contexts/" + id + "/erase").status, 200U);
  EXPECT_EQ(call("POST", "/artesian/contexts/" + id + "/erase").status, 404U);
  EXPECT_EQ(call("GET", "/artesian/contexts").body["contexts"].size(), 1U);
  EXPECT_EQ(call("GET", "/artesian/none").status, 404U);
}

// Also as the beginning of a longer conversation.
TEST_F(GatewayTest, APinOutlastsARestart) {
  settings_.pins = (folder_ / "pins").string();
  start();
  const std::string prompt = long_text('a', 500);
  ask(prompt);
  wait_for(world().gateway->finish(10s));
  const std::string id = call("GET", "/artesian/contexts").body["contexts"][0]["id"];
  EXPECT_EQ(call("POST", "/artesian/contexts/" + id + "/pin").status, 200U);
  restart();
  EXPECT_EQ(call("GET", "/artesian/contexts").body["contexts"][0]["pinned"], true);
  EXPECT_GE(store_->stats().pinned, 4U);
  ask(prompt + "!" + long_text('b', 100));
  restart();
  const auto longer = call("GET", "/artesian/contexts").body["contexts"];
  ASSERT_EQ(longer.size(), 1U);
  EXPECT_EQ(longer[0]["pinned"], true);
  EXPECT_GE(store_->stats().pinned, 4U);
  EXPECT_EQ(call("POST", "/artesian/contexts/" + longer[0]["id"].get<std::string>() + "/unpin").status, 200U);
  EXPECT_EQ(store_->stats().pinned, 0U);
  restart();
  EXPECT_EQ(call("GET", "/artesian/contexts").body["contexts"][0]["pinned"], false);
  EXPECT_EQ(store_->stats().pinned, 0U);
}

TEST_F(GatewayTest, AFailedRestoreIsComputed) {
  start();
  const std::string prompt = long_text('a', 500);
  ask(prompt);
  restart();
  world().server->faults.restore_fails = true;
  const auto said = ask(prompt);
  EXPECT_EQ(said.status, 200U);
  EXPECT_EQ(said.cached(), 0U);
  EXPECT_THAT(reports_, testing::Contains(HasSubstr("no available space")));
}

TEST_F(GatewayTest, AServerThatCannotBeHelpedGetsAPlainProxy) {
  start(2, [](FakeServer& server) { server.faults.unknown_layout = true; });
  EXPECT_EQ(status()["state"], "plain");
  EXPECT_THAT(status()["reason"].get<std::string>(), HasSubstr("version is 9"));
  EXPECT_EQ(ask("hello").status, 200U);
  restart(2, [](FakeServer& server) { server.faults.restore_useless = true; });
  EXPECT_EQ(status()["state"], "plain");
  EXPECT_THAT(status()["reason"].get<std::string>(), HasSubstr("does not help"));
}

TEST_F(GatewayTest, RestoringThatStopsHelpingIsNoticed) {
  start();
  ask(long_text('a', 500));
  restart();
  world().server->faults.restore_useless = true;
  ask(long_text('a', 500));
  ask(long_text('a', 500), "", {{"cache_prompt", false}});
  EXPECT_EQ(status()["restores"], 1);
  EXPECT_THAT(reports_, testing::Contains(HasSubstr("500 tokens were restored and 0 used")));
}

TEST_F(GatewayTest, ASlotWhoseTokensWereMovedIsNotKept) {
  start();
  world().server->faults.moves_tokens = true;
  ask(long_text('a', 500));
  restart();
  EXPECT_EQ(status()["blocks"], 0);
}

TEST_F(GatewayTest, TheWriteBudgetHolds) {
  settings_.write_bytes_per_day = 32 * 300;  // two blocks of 128 tokens
  start();
  ask(long_text('a', 700));
  wait_for(world().gateway->finish(10s));
  EXPECT_EQ(status()["saved_tokens"], 256);
  restart();
  EXPECT_EQ(ask(long_text('a', 700)).cached(), 256U);
}

TEST_F(GatewayTest, MoreClientsThanSlotsWaitAndTheLeastWorkGoesFirst) {
  start(1);
  ask(long_text('a', 600));
  world().server->faults.holds_answers = true;
  int begun = 0;
  world().server->on_complete = [&begun](int) { ++begun; };
  std::vector<std::optional<Said>> said(3);
  std::vector<std::size_t> order;
  const std::vector<std::string> prompts = {long_text('b', 900), long_text('c', 800), long_text('d', 30)};
  for (std::size_t i = 0; i < prompts.size(); ++i) {
    net::co_spawn(*loop_, post(nlohmann::json{{"prompt", prompts[i]}}.dump(), "", said[i]),
                  [&order, i](const std::exception_ptr&) { order.push_back(i); });
    if (i == 0) run_until([&begun] { return begun == 1; });
  }
  run_until([this] { return status()["waiting"] == 2; });
  EXPECT_EQ(begun, 1);
  world().server->faults.holds_answers = false;
  run_until([&order] { return order.size() == 3; });
  EXPECT_THAT(order, testing::ElementsAre(0, 2, 1));
}

// However often it is looked for on its way: read back, waiting for a slot, saved.
TEST_F(GatewayTest, TheStoreIsToldOfAPromptOnce) {
  start(1);
  ask(long_text('a', 600));
  restart(1);
  EXPECT_EQ(ask(long_text('a', 600)).cached(), 599U);
  wait_for(world().gateway->finish(10s));
  EXPECT_EQ(store_->prompts, 1U);
  world().server->faults.holds_answers = true;
  std::vector<std::optional<Said>> said(3);
  std::size_t done = 0;
  for (auto& one : said) {
    net::co_spawn(*loop_, post(R"({"prompt":"abc"})", "", one), [&done](const std::exception_ptr&) { ++done; });
  }
  run_until([this] { return status()["waiting"] == 2; });
  world().server->faults.holds_answers = false;
  run_until([&done] { return done == 3; });
  EXPECT_EQ(store_->prompts, 4U);
}

TEST_F(GatewayTest, WhatAWaitingRequestNeedsIsReadAhead) {
  files_.engine.memory_bytes = 4 * MiB;
  files_.engine.memory_on_put = files_.engine.memory_on_get = false;
  settings_.ahead_bytes_max = 32 * 1000;  // room for one of both
  reopen_store();
  start(1);
  const std::vector<std::string> prompts = {long_text('a', 700), long_text('b', 600)};
  for (const auto& prompt : prompts) ask(prompt);
  restart(1);
  world().server->faults.holds_answers = true;
  bool begun = false;
  world().server->on_complete = [&begun](int) { begun = true; };
  std::vector<std::optional<Said>> said(3);
  std::size_t done = 0;
  const auto send = [&](std::size_t i, const std::string& prompt) {
    net::co_spawn(*loop_, post(nlohmann::json{{"prompt", prompt}}.dump(), "", said[i]),
                  [&done](const std::exception_ptr&) { ++done; });
  };
  send(0, "x");
  run_until([&begun] { return begun; });
  for (std::size_t i = 0; i < 2; ++i) {
    send(i + 1, prompts[i]);
    run_until([&, this] { return status()["waiting"] == i + 1 && status()["staged_blocks"] == 6; });
  }
  EXPECT_EQ(store_->stats().memory_hits, 0U);
  world().server->faults.holds_answers = false;
  run_until([&done] { return done == 3; });
  EXPECT_EQ(said[1]->cached(), 699U);
  EXPECT_EQ(said[2]->cached(), 599U);
  EXPECT_EQ(status()["staged_blocks"], 6);
  EXPECT_EQ(status()["read_from_memory_blocks"], 6);
}

TEST_F(GatewayTest, AClientSaysWhatIsToComeOfItsSession) {
  settings_.unix_ms = [] { return std::uint64_t{1'000'000}; };
  start(3);
  const std::string shared = long_text('a', 400);
  const Headers paused = {
      {"X-Artesian-Session", "b"}, {"X-Artesian-Session-State", "paused"}, {"X-Artesian-Back-In", "30"}};
  ask_with({{"X-Artesian-Session", "a"}}, shared + "#" + long_text('c', 300));
  wait_until_saved();
  ask_with(paused, shared + long_text('b', 300));
  wait_until_saved();
  EXPECT_EQ(store_->expected[Outlook::awaited], 6U);
  EXPECT_EQ(status()["sessions_paused"], 1);
  std::vector<BlockHints> hints;
  ASSERT_TRUE(store_->list(0, [&hints](const BlockFacts& facts) {
    hints.push_back(facts.hints);
    return true;
  }));
  EXPECT_EQ(std::ranges::count_if(hints, [](const BlockHints& hint) { return hint.next_use_ms > 1'000'000; }), 3);
  EXPECT_TRUE(std::ranges::all_of(hints, [](const BlockHints& hint) { return hint.session != 0; }));
  // What both begin with stays as it is.
  EXPECT_EQ(say({{"X-Artesian-Session", "a"}, {"X-Artesian-Session-State", "ended"}}, "/artesian/session").status,
            200U);
  EXPECT_EQ(store_->expected[Outlook::ended], 3U);
  EXPECT_EQ(status()["sessions_ended"], 1);
}

TEST_F(GatewayTest, WhatIsSaidOfASessionIsReadStrictly) {
  start();
  EXPECT_EQ(say({{"X-Artesian-Session", "a"}, {"X-Artesian-Session-State", "ended"}}, "/artesian/session").status,
            404U);
  EXPECT_EQ(say({{"X-Artesian-Session-State", "ended"}}, "/artesian/session").status, 400U);
  const auto refused = ask_with({{"X-Artesian-Session-State", "gone"}}, "x");
  EXPECT_EQ(refused.status, 400U);
  EXPECT_THAT(refused.body.dump(), HasSubstr("active, paused or ended"));
  EXPECT_EQ(ask_with({{"X-Artesian-Back-In", "5"}}, "x").status, 400U);
  EXPECT_EQ(ask_with({{"X-Artesian-Session-State", "ended"}}, "x").status, 200U);
}

TEST_F(GatewayTest, NobodyWaitsForever) {
  settings_.queue_time_max = 50ms;
  start(1);
  world().server->faults.holds_answers = true;
  std::optional<Said> first;
  bool begun = false, done = false;
  world().server->on_complete = [&begun](int) { begun = true; };
  net::co_spawn(*loop_, post(R"({"prompt":"x"})", "", first), [&done](const std::exception_ptr&) { done = true; });
  run_until([&begun] { return begun; });
  const auto said = ask("y");
  EXPECT_EQ(said.status, 503U);
  EXPECT_THAT(said.body.dump(), HasSubstr("no slot became free in time"));
  world().server->faults.holds_answers = false;
  run_until([&done] { return done; });
  EXPECT_EQ(first->status, 200U);
}

TEST_F(GatewayTest, AKeyIsAskedFor) {
  settings_.api_keys = {"secret"};
  settings_.authorization = "Bearer secret";
  start();
  EXPECT_EQ(ask("x").status, 401U);
  EXPECT_EQ(ask("x", "Bearer other").status, 401U);
  EXPECT_EQ(ask("x", "Bearer secret").status, 200U);
}

TEST_F(GatewayTest, AServerThatIsGoneIsAnErrorAndIsLookedForAgain) {
  start();
  ask(long_text('a', 500));
  world().server->stop();
  const auto said = ask("y");
  EXPECT_EQ(said.status, 503U);
  run_until([this] { return status()["state"] == "starting"; });
}

}  // namespace
}  // namespace artesian
