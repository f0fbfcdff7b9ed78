#include "gateway/probe.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/hex.h"
#include "base/sha256.h"
#include "gateway/offload.h"
#include "gateway/prompt.h"
#include "platform/file.h"
#include "platform/shared_mapping.h"

namespace artesian {
namespace {

using nlohmann::json;
using namespace std::chrono_literals;

constexpr auto call_time_max = 20s;      // of a call that does not compute
constexpr auto compute_time_max = 600s;  // of one that does: a model larger than memory is read once
constexpr int probe_tokens = 32;

json parse(const Answer& answer) {
  return answer.status == 200 ? json::parse(answer.body, nullptr, false) : json();
}

std::string probe_body(int slot, int tokens) {
  json prompt = json::array();
  for (int i = 0; i < tokens; ++i) prompt.push_back(32 + i);  // behind the special ones of most vocabularies
  return json{{"prompt", prompt}, {"id_slot", slot},      {"n_predict", 1},
              {"temperature", 0}, {"cache_prompt", true}, {"ignore_eos", true}}
      .dump();
}

struct Probed {
  SlotLayout layout;
  std::uint32_t streams = 0;
  std::string digest;
};

Result<Probed> read_probe(const std::string& path) {
  const auto file = File::open(path, {});
  if (!file) return fail(file.error());
  const auto size = file->size();
  if (!size) return fail(size.error());
  std::vector<std::byte> bytes(*size);
  if (auto read = file->read(0, bytes); !read) return fail(std::move(read.error()));
  const auto slot = parse_slot_file(bytes, "slot file");
  if (!slot) return fail(slot.error());
  if (slot->tokens.size() < probe_tokens) {
    return fail(Code::rejected, "slot file: has {} of {} tokens", slot->tokens.size(), probe_tokens);
  }
  std::vector<std::byte> rows;
  for (const auto piece : block_pieces(*slot, bytes, 0, probe_tokens))
    rows.insert(rows.end(), piece.begin(), piece.end());
  const auto digest = sha256(rows);
  if (!digest) return fail(digest.error());
  return Probed{slot->layout, slot->streams, to_hex(std::span(*digest).first(16))};
}

// An empty slot, or the last one.
Task<int> pick_slot(Upstream& server, int slots, const std::string& authorization) {
  const auto answer = co_await server.ask("GET", "/slots", "", authorization, call_time_max);
  const json list = answer ? parse(*answer) : json();
  int pick = slots - 1;
  if (!list.is_array()) co_return pick;
  for (const json& slot : list) {
    if (!slot.is_object() || slot.value("is_processing", true)) continue;
    if (slot.value("n_prompt_tokens", 0) == 0) pick = slot.value("id", pick);
  }
  co_return pick;
}

Task<Status> read_props(Upstream& server, const std::string& authorization, ServerFacts& facts) {
  const auto answer = co_await server.ask("GET", "/props", "", authorization, call_time_max);
  if (!answer) co_return fail(answer.error());
  const json props = parse(*answer);
  if (!props.is_object() || !props.contains("model_path") || !props.contains("total_slots")) {
    co_return fail(Code::rejected, "/props answers {} and names no model: is this a llama-server with one model?",
                   answer->status);
  }
  facts.model_path = props["model_path"].is_string() ? props["model_path"].get<std::string>() : "";
  facts.slots = props["total_slots"].is_number_integer() ? props["total_slots"].get<int>() : 0;
  facts.build = props.contains("build_info") ? props["build_info"].dump() : "";
  const json settings = props.value("default_generation_settings", json::object());
  facts.context_tokens = settings.value("n_ctx", 0ULL);
  if (facts.slots < 1) co_return fail(Code::rejected, "/props says that there are {} slots", facts.slots);
  const auto adapters = co_await server.ask("GET", "/lora-adapters", "", authorization, call_time_max);
  if (!adapters) co_return fail(adapters.error());
  facts.adapters = adapters->body;
  co_return Status();
}

// What restoring must give: a prompt that goes on behind the restored tokens has all of them from the cache.
Task<Status> check_restore(Upstream& server, int slot, const std::string& authorization) {
  const auto answer =
      co_await server.ask("POST", "/completion", probe_body(slot, probe_tokens + 2), authorization, compute_time_max);
  if (!answer) co_return fail(answer.error());
  const auto timings = answer->status == 200 ? find_timings(answer->body) : std::nullopt;
  if (!timings) co_return fail(Code::rejected, "/completion answers {} without timings", answer->status);
  if (timings->cached < probe_tokens) {
    co_return fail(Code::rejected, "of {} restored tokens this model uses {}: restoring does not help it", probe_tokens,
                   timings->cached);
  }
  co_return Status();
}

}  // namespace

Task<bool> server_ready(Upstream& server) {
  const auto answer = co_await server.ask("GET", "/health", "", "", 5s);
  co_return answer && answer->status == 200;
}

Task<std::vector<std::int64_t>> last_tasks(Upstream& server, std::string authorization) {
  const Duration patience = std::min<Duration>(call_time_max, server.limits().silence_max);
  const auto answer = co_await server.ask("GET", "/slots", "", std::move(authorization), patience);
  const json list = answer ? parse(*answer) : json();
  std::vector<std::int64_t> tasks;
  for (const json& slot : list.is_array() ? list : json::array()) {
    if (!slot.is_object()) co_return std::vector<std::int64_t>();
    const json task = slot.value("id_task", json(-1));
    tasks.push_back(task.is_number_integer() ? task.get<std::int64_t>() : -1);
  }
  co_return tasks;
}

Task<Status> slot_action(Upstream& server, int slot, std::string action, std::string file,
                         const std::string& authorization) {
  const std::string body = json{{"filename", file}}.dump();
  const std::string target = fmt::format("/slots/{}?action={}", slot, action);
  const auto answer = co_await server.ask("POST", target, body, authorization, server.limits().silence_max);
  if (!answer) co_return fail(answer.error());
  if (answer->status == 200) co_return Status();
  const json said = json::parse(answer->body, nullptr, false);
  const json error = said.is_object() ? said.value("error", json::object()) : json::object();
  co_return fail(Code::rejected, "slot {}: {} is refused: {}", slot, action,
                 error.is_object() ? error.value("message", "no reason given") : "no reason given");
}

Task<Result<ServerFacts>> probe_server(Upstream& server, Staging& staging, Executor& worker,
                                       const std::string& authorization) {
  ServerFacts facts;
  if (auto ok = co_await read_props(server, authorization, facts); !ok) co_return fail(std::move(ok.error()));
  const int slot = co_await pick_slot(server, facts.slots, authorization);
  const auto computed =
      co_await server.ask("POST", "/completion", probe_body(slot, probe_tokens), authorization, compute_time_max);
  if (!computed) co_return fail(computed.error());
  if (computed->status != 200) {
    co_return fail(Code::rejected, "/completion of {} tokens answers {}", probe_tokens, computed->status);
  }
  if (const auto timings = find_timings(computed->body)) facts.prefill_tokens_per_second = timings->tokens_per_second();
  const std::string name = staging.next_name();
  const std::string path = staging.path(name);
  Status done = co_await slot_action(server, slot, "save", name, authorization);
  Result<Probed> probed = fail(Code::rejected, "the slot could not be saved");
  if (done) {
    probed = co_await offload(worker, [&path] { return read_probe(path); });
    if (!probed) done = fail(probed.error());
  }
  if (done) done = co_await slot_action(server, slot, "erase", name, authorization);
  if (done) done = co_await slot_action(server, slot, "restore", name, authorization);
  static_cast<void>(remove_file(path));
  if (done) done = co_await check_restore(server, slot, authorization);
  if (done) done = co_await slot_action(server, slot, "erase", name, authorization);
  if (!done) co_return fail(std::move(done.error()));
  facts.layout = std::move(probed->layout);
  facts.streams = probed->streams;
  facts.computes = std::move(probed->digest);
  co_return facts;
}

}  // namespace artesian
