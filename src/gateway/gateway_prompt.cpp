// A prompt's way: its tokens, a slot, what is stored of it restored into that slot, the request handed on, and what its
// answer says learnt.
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <nlohmann/json.hpp>

#include "gateway/gateway.h"
#include "gateway/offload.h"
#include "platform/shared_mapping.h"

namespace artesian {

namespace net = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto as_values = net::as_tuple(net::use_awaitable);
constexpr auto tokenize_time_max = 60s;
constexpr double work_tokens_per_second = 500;  // what waiting weighs against work, until the rate is known
constexpr std::uint32_t useless_restores_max = 2;
constexpr std::uint64_t rate_tokens_min = 64;      // of a prompt that says something about the speed of prefill
constexpr std::uint64_t rate_bytes_min = 8 * MiB;  // of a restore that says something about the speed of reading

}  // namespace

class Gateway::Lease {
 public:
  Lease(Gateway& gateway, Place place) : gateway_(gateway), place_(place) {}
  Lease(const Lease&) = delete;
  Lease& operator=(const Lease&) = delete;
  ~Lease() { gateway_.release_slot(place_); }

 private:
  Gateway& gateway_;
  Place place_;
};

class Gateway::Ahead {
 public:
  Ahead(Gateway& gateway, std::uint64_t bytes, std::span<const Token> tokens, const BlockKey& tenant)
      : gateway_(gateway), bytes_(bytes) {
    gateway.ahead_bytes_ += bytes;
    gateway.ahead_.push_back({this, gateway.contexts_, tenant, {tokens.begin(), tokens.end()}});
    if (!gateway.staging_ahead_) net::co_spawn(gateway.parts_.loop, gateway.stage_ahead(), net::detached);
  }
  Ahead(const Ahead&) = delete;
  Ahead& operator=(const Ahead&) = delete;
  ~Ahead() {
    gateway_.ahead_bytes_ -= bytes_;
    std::erase_if(gateway_.ahead_, [this](const AheadJob& job) { return job.owner == this; });
  }

 private:
  Gateway& gateway_;
  std::uint64_t bytes_;
};

// One after the other, in the order of their coming; what nobody waits for any more is not in the queue.
Task<void> Gateway::stage_ahead() {
  staging_ahead_ = true;
  while (!ahead_.empty()) {
    const AheadJob job = std::move(ahead_.front());
    ahead_.pop_front();
    const std::size_t staged =
        co_await offload(parts_.worker, [&job] { return job.contexts->stage(job.tenant, job.tokens); });
    counters_.staged_blocks += staged;
  }
  staging_ahead_ = false;
}

// How much to bring into memory for a request of which so much is stored: nothing where a slot holds as much, or where
// others that wait have the room.
std::uint64_t Gateway::ahead_bytes(std::span<const Token> tokens, const BlockKey& tenant, std::size_t stored) const {
  std::size_t held = 0;
  for (const Slot& slot : slots_) {
    if (slot.tenant == tenant) held = std::max(held, common_prefix(slot.tokens, tokens));
  }
  const std::uint64_t bytes = stored * costs_.token_bytes;
  const bool fits = ahead_bytes_ + bytes <= settings_.ahead_bytes_max;
  return fits && restore_pays(costs_, held, stored, /*beside_others=*/true) ? bytes : 0;
}

Task<Result<std::vector<Token>>> Gateway::prompt_tokens(Call& call) {
  if (call.prompt.kind == PromptKind::tokens) co_return std::move(call.prompt.tokens);
  const Duration patience = std::min<Duration>(tokenize_time_max, settings_.http.silence_max);
  std::string body = std::move(call.prompt.tokenize);
  if (call.prompt.kind == PromptKind::chat) {
    std::string chat = call.prompt.chat.empty() ? call.request.body() : std::move(call.prompt.chat);
    const auto answer =
        co_await upstream_.ask("POST", "/apply-template", std::move(chat), call.authorization, patience);
    if (!answer) co_return fail(answer.error());
    const auto json = nlohmann::json::parse(answer->body, nullptr, false);
    if (answer->status != 200 || !json.is_object() || !json.contains("prompt") || !json["prompt"].is_string()) {
      co_return fail(Code::rejected, "/apply-template answers {}", answer->status);
    }
    body = tokenize_body(json["prompt"].get_ref<const std::string&>());
  }
  const auto answer = co_await upstream_.ask("POST", "/tokenize", std::move(body), call.authorization, patience);
  if (!answer) co_return fail(answer.error());
  const auto json = nlohmann::json::parse(answer->body, nullptr, false);
  const bool list = answer->status == 200 && json.is_object() && json.contains("tokens") && json["tokens"].is_array();
  if (!list) co_return fail(Code::rejected, "/tokenize answers {}", answer->status);
  std::vector<Token> tokens;
  for (const auto& token : json["tokens"]) {
    if (!token.is_number_integer())
      co_return fail(Code::rejected, "/tokenize answers with something else than numbers");
    tokens.push_back(token.get<Token>());
  }
  co_return tokens;
}

// A free slot at once, or in order of least work: what is to be computed, less what waiting has earned.
Task<Result<Gateway::Place>> Gateway::take_slot(std::span<const Token> tokens, const BlockKey& tenant, bool reuse,
                                                ClientWatch& watch) {
  const std::uint64_t server = server_;
  Waiter waiter{.since = parts_.clock.now()};
  const Nanos deadline = waiter.since + settings_.queue_time_max;
  bool first = true;
  Result<Place> none = fail(Code::retry, "no slot became free in time");
  std::optional<Ahead> ahead;
  while (true) {
    if (server != server_ || state_ != State::ready) co_return fail(Code::device_failed, "the server went away");
    std::size_t stored = 0;
    if (reuse && useless_restores_ < useless_restores_max) {
      stored = first ? contexts_->look_up(tenant, tokens) : contexts_->find(tenant, tokens);
    }
    expire_outlooks();
    const auto choice = choose_slot(slots_, tokens, tenant, stored, costs_);
    if (choice && !watch.gone() && (!first || free_slots() > woken_)) {
      Slot& slot = slots_[static_cast<std::size_t>(choice->slot)];
      slot.busy = true;
      slot.used = ++uses_;
      co_return Place{.slot = choice->slot, .held = choice->held, .restore = choice->restore, .server = server};
    }
    if (first && waiting_.size() >= settings_.queue_max) {
      none = fail(Code::retry, "{} requests wait for a slot already", waiting_.size());
      break;
    }
    if (const auto bytes = first ? ahead_bytes(tokens, tenant, stored) : 0; bytes > 0) {
      ahead.emplace(*this, bytes, tokens, tenant);
    }
    first = false;
    const Nanos now = parts_.clock.now();
    if (now >= deadline || watch.gone()) break;
    net::steady_timer timer(parts_.loop, deadline - now);
    waiter.work = tokens.size() - std::min(stored, tokens.size());
    waiter.timer = &timer;
    waiting_.push_back(&waiter);
    watch.on_gone([&timer] { timer.cancel(); });
    co_await timer.async_wait(as_values);
    watch.on_gone(nullptr);
    // Whoever woke us has taken us off the list; the end of our time and of the client has not.
    if (std::erase(waiting_, &waiter) == 0) --woken_;
  }
  wake_waiter();  // the slot that may have been meant for us
  co_return none;
}

std::size_t Gateway::free_slots() const {
  return static_cast<std::size_t>(std::ranges::count(slots_, false, &Slot::busy));
}

void Gateway::release_slot(const Place& place) {
  if (place.server != server_) return;
  slots_[static_cast<std::size_t>(place.slot)].busy = false;
  wake_waiter();
}

void Gateway::wake_waiter() {
  if (waiting_.empty() || free_slots() <= woken_) return;
  const double rate = costs_.prefill_tokens_per_second > 0 ? costs_.prefill_tokens_per_second : work_tokens_per_second;
  const auto cost = [&](const Waiter* waiter) {
    const std::chrono::duration<double> waited = parts_.clock.now() - waiter->since;
    return static_cast<double>(waiter->work) - waited.count() * rate;
  };
  const auto next = std::ranges::min_element(waiting_, {}, cost);
  Waiter* const waiter = *next;
  waiting_.erase(next);
  ++woken_;
  waiter->timer->cancel();
}

// Slots that are idle and saved are emptied, so that the server has room in a cache that its slots share.
Task<void> Gateway::make_room(int slot) {
  const std::uint64_t server = server_;
  for (std::size_t i = 0; i < slots_.size() && server == server_; ++i) {
    if (static_cast<int>(i) == slot || slots_[i].busy || slots_[i].unsaved || slots_[i].tokens.empty()) continue;
    const Place place{.slot = static_cast<int>(i), .server = server};
    slots_[i].busy = true;
    const Lease lease(*this, place);
    const auto erased = co_await slot_action(upstream_, place.slot, "erase", "none", settings_.authorization);
    if (erased && server == server_) slots_[i].tokens.clear();
  }
}

Task<Status> Gateway::restore_slot(int slot, const std::string& name) {
  auto restored = co_await slot_action(upstream_, slot, "restore", name, settings_.authorization);
  if (restored || restored.error().code != Code::rejected) co_return restored;
  co_await make_room(slot);
  co_return co_await slot_action(upstream_, slot, "restore", name, settings_.authorization);
}

// A large file takes a while to go: nobody waits for it.
Task<void> Gateway::discard(std::string path, std::uint64_t reserved) {
  const Status removed = co_await offload(parts_.worker, [&path] { return remove_file(path); });
  if (!removed) report(removed.error().message);
  staged_bytes_ -= reserved;
}

// Puts what is stored into the slot. Whatever fails here costs the time of computing, no more.
Task<Gateway::Prepared> Gateway::prepare(const Place& place, std::span<const Token> tokens, const BlockKey& tenant) {
  Slot& slot = slots_[static_cast<std::size_t>(place.slot)];
  Prepared prepared;
  // What goes on from all that the slot holds loses nothing.
  const bool loses = place.restore || place.held < slot.tokens.size();
  if (slot.unsaved && loses && may_save(slot)) {
    if (place.restore || slot.tenant != tenant) {
      co_await save_before_loss(place.slot);
    } else {
      // Nothing but the request comes next: the server does both in the order in which they come, between two of its
      // batches. Were the request first, the file would begin with other tokens and not be kept.
      net::co_spawn(parts_.loop, save_before_loss(place.slot), net::detached);
    }
  }
  if (place.restore && place.server == server_) {
    const Nanos begin = parts_.clock.now();
    const auto contexts = contexts_;
    const std::uint64_t room = parts_.staging.bytes_max() - std::min(parts_.staging.bytes_max(), staged_bytes_);
    const std::uint64_t reserved = std::min(room, slot_file_bytes(contexts->layout(), facts_.streams, tokens.size()));
    staged_bytes_ += reserved;
    const std::string name = parts_.staging.next_name();
    const std::string path = parts_.staging.path(name);
    const std::uint32_t streams = facts_.streams;
    auto staged = co_await offload(
        parts_.worker, [&] { return contexts->restore(tenant, tokens, streams, path, reserved, parts_.worker); });
    Status done;
    if (staged && staged->tokens > place.held) {
      done = co_await restore_slot(place.slot, name);
      if (place.server == server_) {
        slot.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(done ? staged->tokens : 0));
        slot.tenant = tenant;
        slot.unsaved = false;
      }
      if (done) prepared.restored = staged->tokens;
    }
    net::co_spawn(parts_.loop, discard(path, reserved), net::detached);
    const std::chrono::duration<double> took = parts_.clock.now() - begin;
    prepared.seconds = took.count();
    if (!staged) report(staged.error().message);
    if (!done) report(done.error().message);
    if (prepared.restored > 0) {
      ++counters_.restores;
      counters_.restored_tokens += prepared.restored;
      counters_.restored_bytes += staged->bytes;
      counters_.restore_seconds += prepared.seconds;
      if (staged->bytes >= rate_bytes_min) {
        costs_.restore_bytes_per_second = static_cast<double>(staged->bytes) / std::max(prepared.seconds, 1e-3);
      }
    }
  }
  if (place.server == server_ && slot.tenant != tenant) {
    // The server would reuse, and so show, what another tenant's prompt has in common with this one.
    if (!slot.tokens.empty() || slot.unsaved) {
      const auto erased = co_await slot_action(upstream_, place.slot, "erase", "none", settings_.authorization);
      if (!erased) report(erased.error().message);
    }
    if (place.server == server_) {
      slot.tokens.clear();
      slot.unsaved = false;
      slot.tenant = tenant;
    }
  }
  co_return prepared;
}

void Gateway::learn(const Place& place, const Prepared& prepared, std::span<const Token> tokens,
                    const Relayed& relayed) {
  if (place.server != server_) return;
  Slot& slot = slots_[static_cast<std::size_t>(place.slot)];
  const std::size_t held = std::max(prepared.restored, place.held);
  // A request that was broken off leaves the slot somewhere behind what it held.
  const std::size_t known = relayed.whole && relayed.status == 200 ? tokens.size() : std::min(held, tokens.size());
  slot.tokens.assign(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(known));
  auto timings = find_timings(relayed.end);
  if (!timings) timings = find_usage(relayed.end);
  if (!timings) timings = find_usage(relayed.begin);
  if (!timings) return;
  // The server made another prompt of it than we: what the slot holds is seen when it is saved.
  if (timings->cached + timings->computed != tokens.size()) slot.tokens.clear();
  counters_.cached_tokens += timings->cached;
  counters_.computed_tokens += timings->computed;
  if (timings->computed >= rate_tokens_min && timings->prompt_ms > 0) {
    costs_.prefill_tokens_per_second = timings->tokens_per_second();
  }
  // The last token is always computed.
  if (prepared.restored == 0 || timings->cached + 1 >= std::min(prepared.restored, tokens.size())) return;
  ++useless_restores_;
  report(fmt::format("slot {}: {} tokens were restored and {} used{}", place.slot, prepared.restored, timings->cached,
                     useless_restores_ < useless_restores_max ? "" : "; this model is left alone from now on"));
}

// What the slot that was meant for a request holds now: what it held before, where the server took another one.
void Gateway::settle(const Call& call, const Place& place, const Prepared& prepared, std::span<const Token> tokens,
                     const Relayed& relayed, const std::vector<bool>& touched) {
  const auto number = static_cast<std::size_t>(place.slot);
  if (place.server != server_ || (number < touched.size() && !touched[number])) return;
  slots_[number].unsaved = call.prompt.keep;
  slots_[number].tenant = call.tenant;
  set_outlook(slots_[number], call.session);
  count_outlook(call.session);
  learn(place, prepared, tokens, relayed);
}

// Before a request whose slot the server chooses: no slot may show it another tenant's prompt.
Task<void> Gateway::part_tenants(const BlockKey& tenant) {
  const std::uint64_t server = server_;
  for (std::size_t i = 0; i < slots_.size() && server == server_; ++i) {
    if (slots_[i].busy || slots_[i].tenant == tenant || (slots_[i].tokens.empty() && !slots_[i].unsaved)) continue;
    const Place place{.slot = static_cast<int>(i), .server = server};
    slots_[i].busy = true;
    const Lease lease(*this, place);
    if (slots_[i].unsaved && may_save(slots_[i])) co_await save_before_loss(place.slot);
    static_cast<void>(co_await slot_action(upstream_, place.slot, "erase", "none", settings_.authorization));
    if (server == server_) slots_[i] = Slot{.busy = true};
  }
}

// The server chooses a slot by what they hold: which idle ones it may have used is said by their last requests.
Task<Relayed> Gateway::relay_unnamed(Call& call, const Fields& extra, std::vector<bool>& touched) {
  const std::uint64_t server = server_;
  co_await part_tenants(call.tenant);
  const bool settings = call.prompt.kind == PromptKind::settings;
  std::vector<std::int64_t> before;
  if (!settings) before = co_await last_tasks(upstream_, settings_.authorization);
  auto relayed = co_await upstream_.relay(call.client, call.request, call.request.body(), extra, call.watch);
  touched.assign(slots_.size(), true);
  if (settings) co_return relayed;
  const auto after = co_await last_tasks(upstream_, settings_.authorization);
  for (std::size_t i = 0; i < slots_.size() && server == server_; ++i) {
    if (i < before.size() && i < after.size()) touched[i] = before[i] != after[i];
    if (slots_[i].busy || !touched[i]) continue;
    slots_[i].tokens.clear();
    slots_[i].tenant = call.tenant;
    slots_[i].unsaved = call.prompt.keep;
    set_outlook(slots_[i], {});
  }
  co_return relayed;
}

Task<Relayed> Gateway::serve_unpinned(Call& call) {
  ++active_;
  std::vector<bool> touched;
  auto relayed = co_await relay_unnamed(call, {}, touched);
  --active_;
  if (call.prompt.kind == PromptKind::settings) {
    if (relayed.status == 200) server_lost();  // what it computes may be another thing now
    co_return relayed;
  }
  save_when_idle();
  co_return relayed;
}

// Of a server that hangs or broke off, nothing was answered; a client that is to come again later has its answer.
Task<Relayed> Gateway::refuse(Call& call, unsigned status, std::string why) {
  Relayed refused;
  if (call.watch.gone()) co_return refused;
  auto answer = error_answer(call.request, status, why);
  if (status == 503) answer.set("Retry-After", "5");
  refused.client_usable = co_await send(call.client, std::move(answer), settings_.http.write_time_max);
  refused.answered = status == 503;
  co_return refused;
}

Task<Relayed> Gateway::serve(Call& call) {
  using Kind = PromptKind;
  if (call.prompt.kind == Kind::unpinned || call.prompt.kind == Kind::settings) {
    co_return co_await serve_unpinned(call);
  }
  const bool reuse = call.prompt.reuse && call.prompt.kind != Kind::pinned;
  Result<std::vector<Token>> tokens = std::vector<Token>();
  if (call.prompt.kind != Kind::pinned) tokens = co_await prompt_tokens(call);
  if (!tokens && tokens.error().code == Code::device_failed)
    co_return co_await refuse(call, 502, tokens.error().message);
  if (!tokens) {
    // The server says itself what is wrong with the request.
    co_return co_await upstream_.relay(call.client, call.request, call.request.body(), {}, call.watch);
  }
  ++counters_.prompts;
  counters_.prompt_tokens += tokens->size();
  const auto place = co_await take_slot(*tokens, call.tenant, reuse, call.watch);
  if (!place) {
    ++counters_.refused;
    co_return co_await refuse(call, 503, place.error().message);
  }
  ++active_;
  Relayed relayed;
  {
    const Lease lease(*this, *place);
    const Prepared prepared = co_await prepare(*place, *tokens, call.tenant);
    Fields extra;
    extra.set("X-Artesian-Restored-Tokens", std::to_string(prepared.restored));
    extra.set("X-Artesian-Restore-Ms", fmt::format("{:.0f}", 1000 * prepared.seconds));
    std::vector<bool> touched;
    if (!call.watch.gone() && !call.prompt.named) relayed = co_await relay_unnamed(call, extra, touched);
    if (!call.watch.gone() && call.prompt.named) {
      const std::string body = with_slot(call.request.body(), place->slot);
      relayed = co_await upstream_.relay(call.client, call.request, body, extra, call.watch);
    }
    settle(call, *place, prepared, *tokens, relayed, touched);
  }
  --active_;
  save_when_idle();
  co_return relayed;
}

}  // namespace artesian
