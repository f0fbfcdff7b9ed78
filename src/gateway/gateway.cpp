#include "gateway/gateway.h"

#include <algorithm>
#include <array>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include "gateway/fingerprint.h"
#include "gateway/offload.h"
#include "gateway/page.h"

namespace artesian {

namespace net = boost::asio;
namespace http = boost::beast::http;
using namespace std::chrono_literals;

namespace {

constexpr auto as_values = net::as_tuple(net::use_awaitable);
constexpr auto look_again = 200ms;     // while the server is not there
constexpr auto probe_patience = 120s;  // of a request that comes while the server is looked at
constexpr std::array public_paths = {"/health", "/v1/health", "/", "/index.html", "/favicon.ico"};

std::string file_name(const std::string& path) {
  return path.substr(path.rfind('/') + 1);
}

// Equal in a time that says nothing about how much of it is.
bool same_secret(std::string_view one, std::string_view other) {
  const auto a = sha256(std::as_bytes(std::span(one)));
  const auto b = sha256(std::as_bytes(std::span(other)));
  return a && b && *a == *b;
}

}  // namespace

Gateway::Gateway(Parts parts, ServerAddress server, GatewaySettings settings)
    : parts_(std::move(parts)),
      settings_(std::move(settings)),
      upstream_(parts_.loop, std::move(server), settings_.http),
      budget_(settings_.write_bytes_per_day, parts_.clock.now()) {}

void Gateway::report(std::string_view sentence) const {
  if (settings_.report) settings_.report(sentence);
}

void Gateway::set_state(State state, std::string reason) {
  state_ = state;
  reason_ = std::move(reason);
  if (state == State::ready || state == State::plain) {
    report(reason_);
    for (auto* waiter : probe_waiters_) waiter->cancel();
    if (settings_.attached) settings_.attached();
  }
}

void Gateway::server_lost() {
  ++server_;
  contexts_.reset();
  slots_.clear();
  for (Waiter* waiter : waiting_) waiter->timer->cancel();
  useless_restores_ = 0;
  state_ = State::starting;
  reason_ = "the server is being looked for";
  if (!attaching_) net::co_spawn(parts_.loop, attach(), net::detached);
}

Task<void> Gateway::attach() {
  attaching_ = true;
  net::steady_timer timer(parts_.loop);
  while (!finishing_) {
    const std::uint64_t server = server_;
    const bool there = co_await server_ready(upstream_);
    if (there && server == server_) {
      set_state(State::probing, "the server is being looked at");
      Status looked;
      try {
        looked = co_await look_at_server();
      } catch (const std::exception& error) {  // JSON of another shape than llama-server's
        looked = fail(Code::rejected, "the server answers in a way that is not known here: {}", error.what());
      }
      if (server == server_ && looked) break;
      if (server == server_ && looked.error().code != Code::retry && looked.error().code != Code::device_failed) {
        set_state(State::plain, "contexts are not kept: " + looked.error().message);
        break;
      }
    }
    timer.expires_after(look_again);
    co_await timer.async_wait(as_values);
  }
  attaching_ = false;
}

Task<Status> Gateway::look_at_server() {
  const std::uint64_t server = server_;
  auto facts = co_await probe_server(upstream_, parts_.staging, parts_.worker, settings_.authorization);
  if (!facts) co_return fail(std::move(facts.error()));
  NamespaceFields fields;
  fields.model =
      fmt::format("{}, build {}, {} tokens", file_name(facts->model_path), facts->build, facts->context_tokens);
  fields.dtype = fmt::format("{}/{}", facts->layout.keys.front().type,
                             facts->layout.values.empty() ? 0 : facts->layout.values.front().type);
  fields.adapter = facts->adapters;
  // Every byte of the weights, and what they compute in the server's settings.
  const std::string model = facts->model_path;
  const std::string& memory = settings_.fingerprints;
  const auto weights = co_await offload(parts_.worker, [&] { return fingerprint_files(model_files(model), memory); });
  if (!weights) co_return fail(Code::rejected, "the model cannot be read: {}", weights.error().message);
  fields.weights = *weights + ":" + facts->computes;
  Store& store = parts_.store;
  const std::string& pins = settings_.pins;
  auto contexts = co_await offload(parts_.worker, [&] { return Contexts::open(store, fields, facts->layout, pins); });
  if (!contexts) co_return fail(Code::rejected, "{}", contexts.error().message);
  if (server != server_) co_return fail(Code::retry, "the server went away");
  facts_ = std::move(*facts);
  contexts_ = std::move(*contexts);
  slots_.assign(static_cast<std::size_t>(facts_.slots), Slot{});
  costs_ = {.prefill_tokens_per_second = facts_.prefill_tokens_per_second,
            .restore_bytes_per_second = costs_.restore_bytes_per_second,
            .token_bytes = facts_.layout.token_bytes()};
  set_state(State::ready, fmt::format("contexts are kept: {} slots of {} tokens, {} bytes a token, {} blocks stored",
                                      facts_.slots, facts_.context_tokens, costs_.token_bytes, contexts_->blocks()));
  co_return Status();
}

bool Gateway::authorized(const Request& request, std::string_view path) const {
  if (settings_.api_keys.empty()) return true;
  if (std::ranges::find(public_paths, path) != public_paths.end()) return true;
  if (request.method() == http::verb::options) return true;  // a browser asks without a key what it may ask
  std::string_view key(request[http::field::authorization].data(), request[http::field::authorization].size());
  if (key.starts_with("Bearer ")) key.remove_prefix(7);
  if (key.empty()) key = {request["x-api-key"].data(), request["x-api-key"].size()};
  return std::ranges::any_of(settings_.api_keys, [&](const std::string& known) { return same_secret(known, key); });
}

Task<void> Gateway::wait_for_probe(ClientWatch& watch) {
  if (state_ != State::probing) co_return;
  net::steady_timer timer(parts_.loop, probe_patience);
  probe_waiters_.insert(&timer);
  watch.on_gone([&timer] { timer.cancel(); });
  co_await timer.async_wait(as_values);
  watch.on_gone(nullptr);
  probe_waiters_.erase(&timer);
}

// Contexts of a tenant are shown to it alone; where no keys are asked for, there is one person.
Task<Response> Gateway::serve_contexts(const Request& request, std::string_view path) {
  const auto tenant = settings_.api_keys.empty() ? std::nullopt : std::optional(tenant_of(request, ""));
  if (!contexts_) co_return error_answer(request, 503, reason_);
  path.remove_prefix(std::string_view("/artesian/contexts").size());
  if (path.empty()) {
    Response response = error_answer(request, 200, "");
    response.body() = contexts_json(tenant);
    response.prepare_payload();
    co_return response;
  }
  const auto slash = path.rfind('/');
  const std::string action(path.substr(slash + 1));
  const std::string id(path.substr(std::min<std::size_t>(1, slash), slash > 0 ? slash - 1 : 0));
  if (request.method() != http::verb::post || (action != "erase" && action != "pin" && action != "unpin")) {
    co_return error_answer(request, 404, "there is no such page");
  }
  const auto contexts = contexts_;
  const Status done = co_await offload(parts_.worker, [&] {
    return action == "erase" ? contexts->erase(id, tenant) : contexts->pin(id, tenant, action == "pin");
  });
  if (done) co_return error_answer(request, 200, "");
  co_return error_answer(request, done.error().code == Code::not_found ? 404 : 409, done.error().message);
}

std::string Gateway::contexts_json(const std::optional<BlockKey>& tenant) const {
  nlohmann::json list = nlohmann::json::array();
  for (const ContextFacts& facts : contexts_->list(tenant)) {
    const std::chrono::duration<double> idle = parts_.store.now() - facts.used;
    list.push_back({{"id", facts.id},
                    {"tokens", facts.tokens},
                    {"shared_tokens", facts.shared_tokens},
                    {"bytes", facts.bytes},
                    {"pinned", facts.pinned},
                    {"idle_seconds", facts.used == Nanos{0} ? -1.0 : idle.count()}});
  }
  return nlohmann::json{{"model", file_name(facts_.model_path)}, {"contexts", std::move(list)}}.dump();
}

Task<Response> Gateway::own_answer(const Request& request, std::string_view path) {
  if (path.starts_with("/artesian/contexts")) co_return co_await serve_contexts(request, path);
  if (path == "/artesian/session") co_return serve_session(request);
  const bool page = path == "/artesian/";
  if (!page && path != "/artesian/status") co_return error_answer(request, 404, "there is no such page");
  Response response(http::status::ok, request.version());
  response.set(http::field::content_type, page ? "text/html; charset=utf-8" : "application/json; charset=utf-8");
  response.set(http::field::cache_control, "no-store");
  response.body() = page ? std::string(status_page) : status_json();
  response.keep_alive(request.keep_alive());
  response.prepare_payload();
  co_return response;
}

Task<bool> Gateway::serve_own(Stream& client, const Request& request, std::string_view path) {
  auto response = co_await own_answer(request, path);
  co_return co_await send(client, std::move(response), settings_.http.write_time_max);
}

// By API key and the request's salt.
BlockKey Gateway::tenant_of(const Request& request, std::string_view salt) const {
  std::string who;
  if (!settings_.share_between_tenants) {
    for (const std::string_view name : {"Authorization", "x-api-key"}) {
      const auto value = request[{name.data(), name.size()}];
      who.append(value.data(), value.size()).push_back('\n');
    }
  }
  const auto root = tenant_root(who.append(salt));
  // Without SHA-256 nothing could be kept in the first place.
  return root ? *root : BlockKey{};
}

Task<bool> Gateway::handle(Stream& client, Request& request) {
  ++counters_.requests;
  const std::string_view target(request.target().data(), request.target().size());
  const std::string path(target.substr(0, target.find('?')));
  if (!authorized(request, path)) {
    co_return co_await send(client, error_answer(request, 401, "Invalid API Key"), settings_.http.write_time_max);
  }
  if (path.starts_with("/artesian/")) co_return co_await serve_own(client, request, path);
  const auto watch = ClientWatch::start(client);
  const auto authorization = request[http::field::authorization];
  Call call{
      .client = client,
      .request = request,
      .watch = *watch,
      .prompt = read_prompt({request.method_string().data(), request.method_string().size()}, path, request.body()),
      .authorization = std::string(authorization.data(), authorization.size()),
      .session = {}};
  auto session = session_of(request);
  if (!session) {
    watch->stop();
    co_return co_await send(client, error_answer(request, 400, session.error().message), settings_.http.write_time_max);
  }
  call.session = std::move(*session);
  if (call.authorization.empty()) call.authorization = settings_.authorization;
  call.tenant = tenant_of(request, call.prompt.salt);
  if (call.prompt.kind != PromptKind::none) co_await wait_for_probe(*watch);
  Relayed relayed;
  if (state_ == State::ready && call.prompt.kind != PromptKind::none) {
    relayed = co_await serve(call);
  } else {
    ++active_;
    relayed = co_await upstream_.relay(client, request, request.body(), {}, *watch);
    --active_;
  }
  watch->stop();
  if (!relayed.answered && !watch->gone()) {
    if (state_ != State::starting) ++counters_.failed;
    if (state_ == State::ready && !co_await server_ready(upstream_)) server_lost();
  }
  co_return relayed.client_usable && !watch->gone();
}

std::string Gateway::status_json() {
  constexpr std::array names = {"starting", "probing", "ready", "plain"};
  const StoreStats store = parts_.store.stats();
  nlohmann::json slots = nlohmann::json::array();
  for (const Slot& slot : slots_) {
    slots.push_back({{"busy", slot.busy}, {"unsaved", slot.unsaved}, {"tokens", slot.tokens.size()}});
  }
  return nlohmann::json{
      {"state", names[static_cast<std::size_t>(state_)]},
      {"reason", reason_},
      {"requests", counters_.requests},
      {"prompts", counters_.prompts},
      {"prompt_tokens", counters_.prompt_tokens},
      {"cached_tokens", counters_.cached_tokens},
      {"computed_tokens", counters_.computed_tokens},
      {"restores", counters_.restores},
      {"restored_tokens", counters_.restored_tokens},
      {"restored_bytes", counters_.restored_bytes},
      {"restore_seconds", counters_.restore_seconds},
      {"saves", counters_.saves},
      {"saved_tokens", counters_.saved_tokens},
      {"saved_bytes", counters_.saved_bytes},
      {"unsaved_tokens", counters_.unsaved_tokens},
      {"write_budget_bytes", settings_.write_bytes_per_day},
      {"write_budget_left_bytes", settings_.write_bytes_per_day == 0 ? 0 : budget_.available(parts_.clock.now())},
      {"save_seconds_max", counters_.save_seconds_max},
      {"save_seconds_worst", save_seconds(facts_.context_tokens)},
      {"prefill_tokens_per_second", costs_.prefill_tokens_per_second},
      {"refused", counters_.refused},
      {"failed", counters_.failed},
      {"waiting", waiting_.size()},
      {"staged_blocks", counters_.staged_blocks},
      {"read_from_memory_blocks", store.memory_hits},
      {"sessions_paused", counters_.paused},
      {"sessions_ended", counters_.ended},
      {"saving", keeping_},
      {"blocks", contexts_ ? contexts_->blocks() : 0},
      {"store_bytes", store.live_bytes},
      {"store_capacity_bytes", store.capacity_bytes},
      {"slots", slots}}
      .dump();
}

}  // namespace artesian
