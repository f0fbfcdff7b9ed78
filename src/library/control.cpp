#include "library/control.h"

#include <algorithm>
#include <nlohmann/json.hpp>

namespace artesian {
namespace {

constexpr std::size_t question_max = 4096, answer_max = 64 * 1024;
constexpr Nanos patience = std::chrono::seconds(10);
constexpr Nanos answer_patience = std::chrono::minutes(10);  // a verify may be silent for a while

std::string dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

// As text where it is text, else "hex:..."
std::string key_text(std::span<const std::byte> key) {
  std::string text(reinterpret_cast<const char*>(key.data()), key.size());
  const auto plain = [](char c) { return c > ' ' && c < 127; };
  if (std::ranges::all_of(text, plain) && !text.starts_with("hex:")) return text;
  std::string hex = "hex:";
  for (const std::byte value : key) hex += fmt::format("{:02x}", static_cast<unsigned>(value));
  return hex;
}

std::string stat_line(Store& store) {
  const StoreStats stats = store.stats();
  nlohmann::json spaces = nlohmann::json::array();
  for (const auto& ns : store.namespaces()) spaces.push_back(nlohmann::json::parse(ns.text, nullptr, false));
  return dump({{"blocks", stats.blocks},
               {"capacity_bytes", stats.capacity_bytes},
               {"live_bytes", stats.live_bytes},
               {"segments", stats.segments},
               {"segments_free", stats.segments_free},
               {"hits", stats.hits},
               {"memory_hits", stats.memory_hits},
               {"misses", stats.misses},
               {"corrupt", stats.corrupt},
               {"late", stats.late},
               {"failed", stats.failed},
               {"stored", stats.stored},
               {"present", stats.present},
               {"shed", stats.shed},
               {"evicted", stats.evicted},
               {"carried", stats.carried},
               {"bytes_read", stats.bytes_read},
               {"bytes_put", stats.bytes_put},
               {"bytes_saved", stats.bytes_saved},
               {"bytes_written", stats.bytes_written},
               {"pinned", stats.pinned},
               {"records_skipped", stats.records_skipped},
               {"index_bytes", stats.index_bytes},
               {"memory_bytes", stats.memory_bytes},
               {"buffer_bytes", stats.buffer_bytes},
               {"refused", stats.refused},
               {"written_bytes", stats.written_ever},
               {"age_seconds", std::chrono::duration<double>(stats.age).count()},
               {"write_bytes_per_day", stats.write_bytes_per_day},
               {"paths", stats.paths},
               {"paths_failed", stats.paths_failed},
               {"namespaces", spaces}});
}

Status list_lines(Store& store, const std::function<bool(std::string)>& line) {
  for (const auto& ns : store.namespaces()) {
    const nlohmann::json space = nlohmann::json::parse(ns.text, nullptr, false);
    bool go_on = true;
    const auto listed = store.list(ns.id, [&](const BlockFacts& facts) {
      go_on = line(dump({{"namespace", space},
                         {"key", key_text(facts.key)},
                         {"parent", key_text(facts.parent)},
                         {"bytes", facts.bytes},
                         {"flash_bytes", facts.flash_bytes},
                         {"generation", facts.generation},
                         {"session", facts.hints.session},
                         {"position", facts.hints.position},
                         {"tokens", facts.hints.tokens}}));
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

Status store_answer(Store& store, std::string_view question, const std::function<bool(std::string)>& line) {
  if (question == "stat") {
    line(stat_line(store));
    return {};
  }
  if (question == "ls") return list_lines(store, line);
  if (question == "verify") return verify_lines(store, line);
  return fail(Code::invalid, "control: '{}' is no question; stat, ls and verify are", question.substr(0, 40));
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
  const auto question = socket.read_line(question_max, patience);
  if (!question) return;
  const auto asked = nlohmann::json::parse(*question, nullptr, false);
  const std::string op = asked.is_object() && asked.contains("op") && asked["op"].is_string() ? asked["op"] : "";
  const auto line = [&](const std::string& text) { return socket.write(text + "\n", patience).has_value(); };
  const Status status = store_answer(store_, op, line);
  if (status) {
    line(dump({{"end", true}}));
  } else {
    line(dump({{"error", status.error().message}}));
  }
}

Status ask_owner(const std::string& path, std::string_view op, const std::function<void(std::string_view)>& line) {
  auto socket = LocalSocket::connect(path);
  if (!socket) return fail(std::move(socket.error()));
  if (auto asked = socket->write(dump({{"op", op}}) + "\n", patience); !asked) return asked;
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

}  // namespace artesian
