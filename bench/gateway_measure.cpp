#include "bench/gateway_measure.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "bench/device_measure.h"
#include "bench/gateway_prompts.h"
#include "gateway/prefix_tree.h"
#include "gateway/prompt.h"
#include "platform/file.h"
#include "platform/machine.h"

namespace artesian::bench {

namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr std::uint64_t store_bytes = 2 * GiB;
constexpr std::uint32_t answer_tokens = 8;
constexpr std::uint32_t own_words = 800;  // of a conversation whose beginning is another's
constexpr std::uint32_t storage_conversations = 20, storage_words = 3000, storage_shared_words = 2000;
// Of the cases with several slots.
constexpr std::uint32_t busy_slots = 4, busy_context = 4096;
constexpr std::uint32_t short_words = 380, long_words = 2000, short_pairs = 9, long_pairs = 5;
constexpr std::uint32_t load_words = 200, load_answer = 16, load_rounds = 4, load_one = 12, load_many = 32;
constexpr std::uint32_t save_words = 2000, save_turns = 6, greeting_words = 8;
constexpr double sweep_seconds = 0.5;

Status make_folder(const std::string& path) {
  std::error_code error;
  fs::create_directories(path, error);
  if (error) return fail(Code::rejected, "{}: cannot be made: {}", path, error.message());
  return {};
}

// Out of the page cache; what is not written yet is written first.
void forget(const std::string& folder) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const auto file = File::open(entry.path().string(), {});
    if (!file) continue;
    static_cast<void>(file->sync_data());
    file->forget_cached(0, 0);
  }
}

json parse(const Result<std::string>& body) {
  return body ? json::parse(*body, nullptr, false) : json();
}

// One model with all that is kept of it.
class ModelBench {
 public:
  ModelBench(const GatewayBenchOptions& options, const GatewayModel& model, GatewayClient& client, const Clock& clock,
             std::function<void(std::string_view)> step)
      : options_(options),
        model_(model),
        client_(client),
        clock_(clock),
        step_(std::move(step)),
        folder_(options.folder + "/" + model.name),
        slots_(options.memory + "/" + model.name) {}

  Result<GatewayModelFigures> run() {
    for (const auto& path : {folder_, slots_, store(), hearth_folder()}) {
      if (auto made = make_folder(path); !made) return fail(std::move(made.error()));
    }
    Status done;
    if (wants("restart") || wants("shared")) done = keep_first_turn();
    if (done && wants("restart")) done = restart_case();
    if (done && wants("shared")) done = shared_case();
    if (done && wants("storage")) done = storage_case();
    if (done && (wants("miss") || wants("save"))) done = busy_cases();
    if (!done) return fail(std::move(done.error()));
    return std::move(figures_);
  }

 private:
  // A server and what stands before it. The one before goes first.
  struct Pair {
    std::optional<Running> server, before;
    const Url& url() const { return before ? before->url() : server->url(); }
    Status stop() {
      if (before) {
        if (auto stopped = before->stop(); !stopped) return stopped;
      }
      return server->stop();
    }
  };

  bool wants(const std::string& what) const { return options_.cases.contains(model_.name + "." + what); }
  bool hearth() const { return !options_.programs.hearth.empty(); }
  std::string store() const { return folder_ + "/kv"; }
  std::string hearth_folder() const { return folder_ + "/hearth"; }
  void step(std::string_view what) const { step_(fmt::format("{}: {}", model_.name, what)); }

  ServerSetup setup(const std::string& slot_folder) const {
    return {.model = model_.file,
            .context = model_.context,
            .slots = 1,
            .threads = options_.threads,
            .slot_folder = slot_folder};
  }

  Result<Pair> plain() {
    auto server = start_server(client_, options_.programs, setup(slots_), folder_ + "-server.log");
    if (!server) return fail(std::move(server.error()));
    Pair pair;
    pair.server = std::move(*server);
    return pair;
  }

  Result<Pair> with_gateway(const ServerSetup& server, const std::string& kv) {
    Pair pair;
    auto started = start_server(client_, options_.programs, server, folder_ + "-server.log");
    if (!started) return fail(std::move(started.error()));
    pair.server = std::move(*started);
    auto before = start_gateway(client_, options_.programs, pair.server->url(), server.slot_folder, kv, store_bytes,
                                folder_ + "-gateway.log");
    if (!before) return fail(std::move(before.error()));
    pair.before = std::move(*before);
    return pair;
  }

  Result<Pair> with_hearth() {
    Pair pair;
    auto started = start_server(client_, options_.programs, setup(hearth_folder()), folder_ + "-hearth-server.log");
    if (!started) return fail(std::move(started.error()));
    pair.server = std::move(*started);
    auto before =
        start_hearth(client_, options_.programs, pair.server->url(), hearth_folder(), folder_ + "-hearth.log");
    if (!before) return fail(std::move(before.error()));
    pair.before = std::move(*before);
    return pair;
  }

  Result<json> saved(Pair& pair) {
    json last;
    const auto done = pair.before->wait_until("/artesian/status", [&last](const std::string& body) {
      last = json::parse(body, nullptr, false);
      if (!last.is_object() || last.value("saving", 1) != 0) return false;
      return std::ranges::none_of(last.value("slots", json::array()), [](const json& slot) {
        return slot.value("busy", true) || slot.value("unsaved", true);
      });
    });
    if (!done) return fail(done.error());
    return last;
  }

  std::string first_turn() const { return question(words(1, model_.prompt_words), "How often is the well named?"); }

  // The first turn, computed by all sides, and kept as each of them keeps it.
  Status keep_first_turn() {
    const std::vector<std::string> turns = {first_turn()};
    step("the first turn is computed");
    auto pair = with_gateway(setup(slots_), store());
    if (!pair) return fail(std::move(pair.error()));
    auto answer = client_.chat(pair->url(), chat_body(turns, answer_tokens));
    if (!answer) return fail(std::move(answer.error()));
    first_ = *answer;
    if (auto waited = saved(*pair); !waited) return fail(std::move(waited.error()));
    const auto written =
        client_.call(pair->server->url(), "POST", "/slots/0?action=save", R"({"filename":"plain.slot"})");
    if (!written) return fail(written.error());
    std::error_code error;
    fs::copy_file(slots_ + "/plain.slot", folder_ + "/plain.slot", error);
    if (error) return fail(Code::rejected, "{}/plain.slot: {}", folder_, error.message());
    if (auto stopped = pair->stop(); !stopped) return stopped;
    if (!hearth()) return {};
    step("the first turn is computed behind hearth");
    auto other = with_hearth();
    if (!other) return fail(std::move(other.error()));
    auto theirs = client_.chat(other->url(), chat_body(turns, answer_tokens));
    if (!theirs) return fail(std::move(theirs.error()));
    const auto kept = other->before->wait_until("/hearth/stats", [](const std::string& body) {
      return json::parse(body, nullptr, false).value("snapshots", 0) > 0;
    });
    if (!kept) return kept;
    return other->stop();
  }

  // The same question again, so that the server has one token left to compute; and beside hearth, which keeps whole
  // conversations, the next question.
  Status restart_case() {
    RestartFigures figures{.computed = first_.first_seconds};
    std::error_code error;
    figures.file_bytes = fs::file_size(folder_ + "/plain.slot", error);
    const std::string again = chat_body({first_turn()}, answer_tokens);
    for (std::uint32_t round = 0; round < options_.rounds; ++round) {
      step(fmt::format("asked again after a restart, round {}", round + 1));
      const auto answer = ask_after_restart(again);
      if (!answer) return fail(answer.error());
      text_ = answer->text;
      figures.gateway.push_back(answer->first_seconds);
      figures.restore.push_back(answer->restore_seconds);
      figures.prompt_tokens = answer->prompt();
      figures.restored_tokens = answer->restored;
      if (auto done = server_round(again, figures); !done) return done;
      if (auto done = read_round(figures); !done) return done;
      if (!hearth()) continue;
      const std::string asked = fmt::format("Name the first word {} times.", round + 2);
      const std::string on = chat_body({first_turn(), first_.text, asked}, answer_tokens);
      const auto ours = ask_after_restart(on);
      if (!ours) return fail(ours.error());
      const auto theirs = ask_hearth(on);
      if (!theirs) return fail(theirs.error());
      figures.goes_on.push_back(ours->first_seconds);
      figures.hearth.push_back(theirs->first_seconds);
    }
    figures_.restart = std::move(figures);
    return {};
  }

  Result<ChatAnswer> ask_after_restart(const std::string& body) {
    auto pair = with_gateway(setup(slots_), store());
    if (!pair) return fail(std::move(pair.error()));
    forget(store());
    auto answer = client_.chat(pair->url(), body);
    if (!answer) return answer;
    if (auto waited = saved(*pair); !waited) return fail(std::move(waited.error()));
    if (auto stopped = pair->stop(); !stopped) return fail(std::move(stopped.error()));
    return answer;
  }

  // What the server does by itself with the file in memory.
  Status server_round(const std::string& body, RestartFigures& figures) {
    auto pair = plain();
    if (!pair) return fail(std::move(pair.error()));
    const Nanos begin = clock_.now();
    const auto restored = client_.call(pair->url(), "POST", "/slots/0?action=restore", R"({"filename":"plain.slot"})");
    const std::chrono::duration<double> took = clock_.now() - begin;
    if (!restored) return fail(restored.error());
    const auto answer = client_.chat(pair->url(), body);
    if (!answer) return fail(answer.error());
    figures.server.push_back(took.count() + answer->first_seconds);
    figures.server_first.push_back(answer->first_seconds);
    ++figures_.texts;
    if (answer->text != text_) ++figures_.wrong;
    return pair->stop();
  }

  // At the best rate of large requests from large pages, as the drive can do it.
  Status read_round(RestartFigures& figures) {
    const auto report = measure_device({.path = folder_ + "/plain.slot",
                                        .seconds = sweep_seconds,
                                        .request_bytes = {1 * MiB, 4 * MiB},
                                        .depths = {16},
                                        .version = {},
                                        .progress = {},
                                        .report = {}},
                                       clock_);
    if (!report) return fail(report.error());
    figures.read.push_back(static_cast<double>(figures.file_bytes) / best_read_bandwidth(report->points));
    return {};
  }

  Result<ChatAnswer> ask_hearth(const std::string& body) {
    auto pair = with_hearth();
    if (!pair) return fail(std::move(pair.error()));
    forget(hearth_folder());
    auto answer = client_.chat(pair->url(), body);
    if (!answer) return answer;
    if (auto stopped = pair->stop(); !stopped) return fail(std::move(stopped.error()));
    return answer;
  }

  // The tokens of a conversation, as the server sees them.
  Result<std::vector<Token>> tokens_of(const Url& server, const std::string& body) {
    const json prompt = parse(client_.call(server, "POST", "/apply-template", body));
    if (!prompt.is_object() || !prompt.contains("prompt"))
      return fail(Code::rejected, "/apply-template gives no prompt");
    const json list =
        parse(client_.call(server, "POST", "/tokenize", tokenize_body(prompt["prompt"].get<std::string>())));
    if (!list.is_object() || !list.contains("tokens")) return fail(Code::rejected, "/tokenize gives no tokens");
    return list["tokens"].get<std::vector<Token>>();
  }

  Status shared_case() {
    step("another conversation with the same beginning");
    const std::string text = words(1, model_.shared_words) + " " + words(2, own_words);
    const std::string body = chat_body({question(text, "What is it about?")}, answer_tokens);
    auto pair = with_gateway(setup(slots_), store());
    if (!pair) return fail(std::move(pair.error()));
    const auto ours = tokens_of(pair->server->url(), body);
    const auto first = tokens_of(pair->server->url(), chat_body({first_turn()}, answer_tokens));
    if (!ours) return fail(ours.error());
    if (!first) return fail(first.error());
    forget(store());
    const auto answer = client_.chat(pair->url(), body);
    if (!answer) return fail(answer.error());
    SharedFigures figures{.prompt_tokens = answer->prompt(),
                          .shared_tokens = common_prefix(*ours, *first),
                          .computed_tokens = answer->computed,
                          .gateway = answer->first_seconds,
                          .hearth = {}};
    if (auto waited = saved(*pair); !waited) return fail(std::move(waited.error()));
    if (auto stopped = pair->stop(); !stopped) return stopped;
    if (hearth()) {
      const auto theirs = ask_hearth(body);
      if (!theirs) return fail(theirs.error());
      figures.hearth = theirs->first_seconds;
      figures.hearth_computed = theirs->computed;
    }
    figures_.shared = figures;
    return {};
  }

  Status storage_case() {
    const std::string kv = folder_ + "/storage";
    if (auto made = make_folder(kv); !made) return made;
    auto pair = with_gateway(setup(slots_), kv);
    if (!pair) return fail(std::move(pair.error()));
    StorageFigures figures{.conversations = storage_conversations};
    std::vector<Token> first;
    for (std::uint32_t i = 0; i < storage_conversations; ++i) {
      step(fmt::format("conversation {} of {} that begin alike", i + 1, storage_conversations));
      const std::string text =
          words(1, storage_shared_words) + " " + words(100 + i, storage_words - storage_shared_words);
      const std::string body = chat_body({question(text, "What is it about?")}, answer_tokens);
      const auto tokens = tokens_of(pair->server->url(), body);
      if (!tokens) return fail(tokens.error());
      const auto answer = client_.chat(pair->url(), body);
      if (!answer) return fail(answer.error());
      if (i == 0) first = *tokens;
      if (i == 1) figures.shared_tokens = common_prefix(first, *tokens);
      figures.own_tokens +=
          tokens->size() + answer_tokens - 1;  // the last one of the answer has no keys and values yet
    }
    figures.own_tokens -= figures.shared_tokens * storage_conversations;
    const auto status = saved(*pair);
    if (!status) return fail(status.error());
    figures.stored_tokens = status->value("saved_tokens", 0ULL);
    figures.stored_bytes = status->value("saved_bytes", 0ULL);
    figures_.storage = figures;
    return pair->stop();
  }

  // Cases with several clients, on one server, asked directly and through the gateway in turns.
  Status busy_cases() {
    ServerSetup server = setup(slots_);
    server.context = busy_context;
    server.slots = busy_slots;
    const std::string kv = folder_ + "/busy";
    if (auto made = make_folder(kv); !made) return made;
    auto pair = with_gateway(server, kv);
    if (!pair) return fail(std::move(pair.error()));
    if (wants("miss")) {
      if (auto done = miss_case(*pair); !done) return done;
    }
    if (wants("save")) {
      if (auto done = save_case(*pair); !done) return done;
    }
    return pair->stop();
  }

  // The same again and again, directly and through the gateway, the first of a pair in turns; `measure` gives seconds.
  using Measure = std::function<Result<double>(const Url&)>;
  Status in_turns(Pair& pair, const std::string& what, std::uint32_t count, const Measure& measure,
                  std::vector<double>& direct, std::vector<double>& through) {
    for (std::uint32_t i = 0; i < 2 * count; ++i) {
      step(fmt::format("{}, {} of {}", what, i + 1, 2 * count));
      const bool gateway = (i % 4 == 1) || (i % 4 == 2);
      const auto took = measure(gateway ? pair.url() : pair.server->url());
      if (!took) return fail(took.error());
      (gateway ? through : direct).push_back(*took);
      if (auto waited = saved(pair); !waited) return fail(std::move(waited.error()));
    }
    return {};
  }

  // Prompts that nobody has seen, to the first token.
  Measure miss_of(std::uint32_t length) {
    return [this, length](const Url& url) -> Result<double> {
      const auto answer = client_.chat(url, chat_body({fresh(length)}, answer_tokens));
      if (!answer) return fail(answer.error());
      return answer->first_seconds;
    };
  }

  // Requests of some clients, all of them.
  Measure load_of(std::uint32_t clients, std::uint32_t requests) {
    return [this, clients, requests](const Url& url) {
      std::vector<std::string> bodies;
      for (std::uint32_t k = 0; k < requests; ++k) bodies.push_back(chat_body({fresh(load_words)}, load_answer));
      return client_.chat_all(url, bodies, clients);
    };
  }

  Status miss_case(Pair& pair) {
    MissFigures figures;
    auto done = in_turns(pair, fmt::format("a miss of {} words", short_words), short_pairs, miss_of(short_words),
                         figures.short_direct, figures.short_gateway);
    if (done) {
      done = in_turns(pair, fmt::format("a miss of {} words", long_words), long_pairs, miss_of(long_words),
                      figures.long_direct, figures.long_gateway);
    }
    if (done) {
      done = in_turns(pair, fmt::format("{} requests of one client", load_one), load_rounds, load_of(1, load_one),
                      figures.one_direct, figures.one_gateway);
    }
    if (done) {
      done = in_turns(pair, fmt::format("{} requests of 16 clients", load_many), load_rounds, load_of(16, load_many),
                      figures.many_direct, figures.many_gateway);
    }
    figures_.miss = std::move(figures);
    return done;
  }

  // A greeting that comes some time after the answer to a long prompt, so that it meets the saving of that.
  Status save_case(Pair& pair) {
    SaveFigures figures;
    const auto greet = [&](std::vector<double>& times) -> Status {
      const auto answer = client_.chat(pair.url(), chat_body({fresh(greeting_words)}, 1));
      if (!answer) return fail(answer.error());
      times.push_back(answer->first_seconds);
      return {};
    };
    for (std::uint32_t i = 0; i < save_turns; ++i) {
      step(fmt::format("a greeting while a long conversation is saved, {} of {}", i + 1, save_turns));
      if (auto waited = saved(pair); !waited) return fail(std::move(waited.error()));
      if (auto done = greet(figures.alone); !done) return done;
      const auto answer = client_.chat(pair.url(), chat_body({fresh(save_words)}, answer_tokens));
      if (!answer) return fail(answer.error());
      // Spread over the time in which the save begins and lasts.
      if (auto paused = client_.pause(std::chrono::milliseconds(40 + 12 * i)); !paused) return paused;
      if (auto done = greet(figures.beside); !done) return done;
    }
    const auto status = saved(pair);
    if (!status) return fail(status.error());
    figures.pause_max = status->value("save_seconds_max", 0.0);
    figures.worst = status->value("save_seconds_worst", 0.0);
    figures_.save = std::move(figures);
    return {};
  }

  std::string fresh(std::uint32_t count) { return words(1000 + seed_++, count); }

  const GatewayBenchOptions& options_;
  const GatewayModel& model_;
  GatewayClient& client_;
  const Clock& clock_;
  std::function<void(std::string_view)> step_;
  const std::string folder_, slots_;
  ChatAnswer first_;
  std::string text_;
  std::uint64_t seed_ = 0;
  GatewayModelFigures figures_;
};

constexpr std::array cases = {
    GatewayCaseInfo{"smollm.restart", "a 7,800-token conversation after a restart of everything"},
    GatewayCaseInfo{"smollm.shared", "another one begins with 4,000 of its tokens"},
    GatewayCaseInfo{"smollm.storage", "20 conversations share 2,000 of 3,000 tokens"},
    GatewayCaseInfo{"smollm.miss", "prompts that nobody has seen, one client and 16"},
    GatewayCaseInfo{"smollm.save", "a request that comes while a long conversation is saved"},
    GatewayCaseInfo{"dense.restart", "2,000 tokens of a model of about a billion parameters, after a restart"},
    GatewayCaseInfo{"dense.shared", "another one begins with 1,000 of them"},
};

}  // namespace

std::span<const GatewayCaseInfo> gateway_cases() {
  return cases;
}

Result<GatewayReport> measure_gateway(const GatewayBenchOptions& options, const Clock& clock) {
  GatewayReport report;
  report.machine =
      fmt::format("{}; {}; {}", to_text(machine_facts()), to_text(storage_of(options.folder)), options.programs.server);
  GatewayClient client(clock);
  std::size_t number = 0;
  for (const GatewayModel& model : options.models) {
    const double part = static_cast<double>(number++) / static_cast<double>(options.models.size());
    const auto step = [&](std::string_view what) {
      if (options.progress) options.progress(part, what);
    };
    auto figures = ModelBench(options, model, client, clock, step).run();
    if (!figures) return fail(std::move(figures.error()));
    report.models.emplace_back(model.name, std::move(*figures));
  }
  return report;
}

}  // namespace artesian::bench
