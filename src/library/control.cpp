#include "library/control.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "library/key_text.h"
#include "library/stat_rows.h"

namespace artesian {
namespace {

constexpr std::size_t question_max = 4096, answer_max = 64 * 1024;
constexpr Nanos patience = std::chrono::seconds(10);
constexpr Nanos answer_patience = std::chrono::minutes(10);  // a verify may be silent for a while

std::string dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::uint64_t number(const nlohmann::json& line, const char* name) {
  const auto found = line.find(name);
  return found != line.end() && found->is_number() ? found->get<std::uint64_t>() : 0;
}

std::string stat_line(Store& store) {
  const StoreStats stats = store.stats();
  nlohmann::json line{{"age_seconds", std::chrono::duration<double>(stats.age).count()},
                      {"paths", stats.paths},
                      {"paths_failed", stats.paths_failed},
                      {"namespaces", nlohmann::json::array()}};
  for (const StatRow& row : stat_rows) line[row.name] = stats.*row.figure;
  for (const auto& ns : store.namespaces()) {
    line["namespaces"].push_back(nlohmann::json::parse(ns.text, nullptr, false));
    line["namespace_ids"].push_back(ns.id);
  }
  return dump(line);
}

// Of one namespace, or of all.
Status list_lines(Store& store, std::optional<NamespaceId> only, const std::function<bool(std::string)>& line) {
  for (const auto& ns : store.namespaces()) {
    if (only && *only != ns.id) continue;
    const nlohmann::json space = nlohmann::json::parse(ns.text, nullptr, false);
    bool go_on = true;
    const auto listed = store.list(ns.id, [&](const BlockFacts& facts) {
      go_on = line(dump({{"namespace", space},
                         {"key", key_text(facts.key)},
                         {"parent", key_text(facts.parent)},
                         {"attributes", key_text(facts.attributes)},
                         {"bytes", facts.bytes},
                         {"flash_bytes", facts.flash_bytes},
                         {"generation", facts.generation},
                         {"session", facts.hints.session},
                         {"position", facts.hints.position},
                         {"tokens", facts.hints.tokens},
                         {"deadline_ms", facts.hints.deadline_ms},
                         {"next_use_ms", facts.hints.next_use_ms},
                         {"lifetime", facts.hints.lifetime}}));
      return go_on;
    });
    if (!listed || !go_on) return listed;
  }
  return {};
}

Status verify_lines(Store& store, const std::function<bool(std::string)>& line) {
  const std::uint64_t all = store.stats().blocks;
  const auto say = [&](const VerifyReport& now) {
    return line(dump({{"blocks", now.blocks},
                      {"of", all},
                      {"bytes", now.bytes},
                      {"bad", now.bad},
                      {"records_skipped", store.stats().records_skipped}}));
  };
  std::uint64_t next = 0;
  const auto report = store.verify([&](const VerifyReport& now) {
    if (now.blocks < next) return;
    next = now.blocks + all / 100 + 1;
    say(now);
  });
  if (!report) return fail(report.error());
  say(*report);
  return {};
}

}  // namespace

Status store_answer(Store& store, const StoreQuestion& question, const std::function<bool(std::string)>& line) {
  if (question.op == "stat") {
    line(stat_line(store));
    return {};
  }
  if (question.op == "ls") return list_lines(store, question.ns, line);
  if (question.op == "verify") return verify_lines(store, line);
  return fail(Code::invalid, "control: '{}' is no question; stat, ls and verify are", question.op.substr(0, 40));
}

Result<std::unique_ptr<ControlServer>> ControlServer::start(Store& store, const std::string& path,
                                                            std::unique_ptr<Executor> executor) {
  auto listener = LocalListener::open(path);
  if (!listener) return fail(std::move(listener.error()));
  auto stop = Event::create();
  if (!stop) return fail(std::move(stop.error()));
  std::unique_ptr<ControlServer> server(new ControlServer(store, std::move(*listener), std::move(*stop)));
  server->executor_ = std::move(executor);
  for (std::size_t i = 0; i < threads; ++i) server->executor_->post([made = server.get()] { made->serve(); });
  return server;
}

ControlServer::~ControlServer() {
  stop_.set();
  executor_.reset();
}

void ControlServer::serve() {
  for (;;) {
    auto socket = listener_.accept(stop_);
    if (!socket || !*socket) return;
    answer(std::move(**socket));
  }
}

void ControlServer::answer(LocalSocket socket) {
  const auto text = socket.read_line(question_max, patience);
  if (!text) return;
  const auto asked = nlohmann::json::parse(*text, nullptr, false);
  StoreQuestion question;
  if (asked.is_object() && asked.contains("op") && asked["op"].is_string()) question.op = asked["op"];
  if (asked.is_object() && asked.contains("namespace") && asked["namespace"].is_number_unsigned()) {
    question.ns = asked["namespace"].get<NamespaceId>();
  }
  const auto line = [&](const std::string& said) { return socket.write(said + "\n", patience).has_value(); };
  const Status status = store_answer(store_, question, line);
  if (status) {
    line(dump({{"end", true}}));
  } else {
    line(dump({{"error", status.error().message}}));
  }
}

Status ask_owner(const std::string& path, const StoreQuestion& question,
                 const std::function<void(std::string_view)>& line) {
  auto socket = LocalSocket::connect(path);
  if (!socket) return fail(std::move(socket.error()));
  nlohmann::json asked{{"op", question.op}};
  if (question.ns) asked["namespace"] = *question.ns;
  if (auto sent = socket->write(dump(asked) + "\n", patience); !sent) return sent;
  for (;;) {
    const auto answer = socket->read_line(answer_max, answer_patience);
    if (!answer) return fail(answer.error());
    const auto parsed = nlohmann::json::parse(*answer, nullptr, false);
    if (parsed.is_object() && parsed.contains("end")) return {};
    if (parsed.is_object() && parsed.contains("error")) {
      return fail(Code::rejected, "{}", parsed["error"].is_string() ? parsed["error"].get<std::string>() : "an error");
    }
    line(*answer);
  }
}

Result<OwnerStats> ask_owner_stats(const std::string& path) {
  OwnerStats all;
  const Status asked = ask_owner(path, {.op = "stat"}, [&](std::string_view text) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object()) return;
    for (const StatRow& row : stat_rows) all.stats.*row.figure = number(line, row.name);
    all.stats.paths = static_cast<std::uint32_t>(number(line, "paths"));
    all.stats.paths_failed = static_cast<std::uint32_t>(number(line, "paths_failed"));
    all.stats.age = Nanos(std::chrono::seconds(number(line, "age_seconds")));
    const auto& texts = line.value("namespaces", nlohmann::json::array());
    const auto& ids = line.value("namespace_ids", nlohmann::json::array());
    for (std::size_t i = 0; i < std::min(texts.size(), ids.size()); ++i) {
      if (ids[i].is_number_unsigned()) all.namespaces.push_back({ids[i].get<NamespaceId>(), dump(texts[i])});
    }
  });
  if (!asked) return fail(asked.error());
  return all;
}

Status ask_owner_list(const std::string& path, NamespaceId ns, const std::function<bool(const BlockFacts&)>& each) {
  bool go_on = true;
  return ask_owner(path, {.op = "ls", .ns = ns}, [&](std::string_view text) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object() || !go_on) return;
    const auto bytes = [&](const char* name) {
      return parse_key_text(line.value(name, std::string())).value_or(std::vector<std::byte>());
    };
    go_on = each({.key = bytes("key"),
                  .parent = bytes("parent"),
                  .attributes = bytes("attributes"),
                  .hints = {.session = number(line, "session"),
                            .position = static_cast<std::uint32_t>(number(line, "position")),
                            .tokens = static_cast<std::uint32_t>(number(line, "tokens")),
                            .deadline_ms = number(line, "deadline_ms"),
                            .next_use_ms = number(line, "next_use_ms"),
                            .lifetime = static_cast<std::uint8_t>(number(line, "lifetime"))},
                  .bytes = number(line, "bytes"),
                  .flash_bytes = number(line, "flash_bytes"),
                  .generation = number(line, "generation")});
  });
}

Result<VerifyReport> ask_owner_verify(const std::string& path,
                                      const std::function<void(const VerifyReport&)>& progress) {
  VerifyReport report;
  const Status asked = ask_owner(path, {.op = "verify"}, [&](std::string_view text) {
    const auto line = nlohmann::json::parse(text, nullptr, false);
    if (!line.is_object()) return;
    report = {.blocks = number(line, "blocks"), .bytes = number(line, "bytes"), .bad = number(line, "bad")};
    if (progress) progress(report);
  });
  if (!asked) return fail(asked.error());
  return report;
}

}  // namespace artesian
