// Saving: what a slot holds goes to the store when nobody is held up by it for long.
#include <algorithm>
#include <boost/asio/as_tuple.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/detached.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "gateway/gateway.h"
#include "gateway/offload.h"
#include "platform/file.h"
#include "platform/shared_mapping.h"

namespace artesian {

namespace net = boost::asio;
using namespace std::chrono_literals;

namespace {

constexpr auto as_values = net::as_tuple(net::use_awaitable);
// After an answer, so that a client that goes on at once is not held up.
constexpr auto idle_time = 50ms;

struct Saved {
  std::vector<Token> tokens;
  Kept kept;
};

// `known` is what the slot must begin with. Where it does not, the server has moved its tokens (context shift), and
// their keys and values are not those of a prompt.
Result<Saved> keep_file(Contexts& contexts, const BlockKey& tenant, const std::string& path,
                        std::span<const Token> known, std::uint64_t budget, const BlockHints& hints) {
  const auto file = File::open(path, {});
  if (!file) return fail(file.error());
  const auto size = file->size();
  if (!size) return fail(size.error());
  const auto mapping = SharedMapping::open(path, *size);
  if (!mapping) return fail(mapping.error());
  if (auto removed = remove_file(path); !removed) return fail(std::move(removed.error()));
  auto slot = parse_slot_file(mapping->bytes(), "slot file");
  if (!slot) return fail(slot.error());
  Saved saved{.tokens = slot->tokens, .kept = {}};
  if (slot->tokens.empty() || common_prefix(slot->tokens, known) < known.size()) return saved;
  auto kept = contexts.keep(tenant, *slot, mapping->bytes(), budget, hints);
  if (!kept) return fail(kept.error());
  saved.kept = *kept;
  return saved;
}

}  // namespace

// For how long the server's loop stands still to save so many tokens.
double Gateway::save_seconds(std::size_t tokens) const {
  return static_cast<double>(tokens * costs_.token_bytes) / save_bytes_per_second_;
}

// Whether that is a time that others bear.
bool Gateway::may_save(const Slot& slot) const {
  const std::chrono::duration<double> pause(save_seconds(slot.tokens.size()));
  return active_ <= (slot.busy ? 1U : 0U) || pause <= settings_.save_pause_max;
}

void Gateway::save_when_idle() {
  if (saving_ || state_ != State::ready) return;
  net::co_spawn(parts_.loop, save_idle_slots(), net::detached);
}

Task<void> Gateway::save_idle_slots() {
  saving_ = true;
  net::steady_timer timer(parts_.loop);
  while (state_ == State::ready) {
    if (!finishing_) {
      timer.expires_after(idle_time);
      co_await timer.async_wait(as_values);
    }
    const auto next =
        std::ranges::find_if(slots_, [this](const Slot& slot) { return slot.unsaved && !slot.busy && may_save(slot); });
    if (next == slots_.end() || state_ != State::ready) break;
    const Place place{.slot = static_cast<int>(next - slots_.begin()), .server = server_};
    next->busy = true;
    auto file = co_await take_file(place.slot);
    release_slot(place);
    if (file) co_await keep(std::move(*file));
  }
  saving_ = false;
}

// Has the server write what the slot holds; the slot is the caller's meanwhile.
Task<std::optional<Gateway::SavedFile>> Gateway::take_file(int number) {
  Slot& slot = slots_[static_cast<std::size_t>(number)];
  const std::string name = parts_.staging.next_name();
  SavedFile file{.slot = number, .server = server_, .use = slot.used, .path = parts_.staging.path(name)};
  file.reserved = facts_.context_tokens * costs_.token_bytes;
  file.contexts = contexts_;
  file.tenant = slot.tenant;
  file.known = slot.tokens;
  file.session = slot.session;
  file.outlook = slot.outlook;
  file.hints = hints_of(slot);
  slot.unsaved = false;
  if (staged_bytes_ + file.reserved > parts_.staging.bytes_max()) {
    report(fmt::format("slot {}: a state of up to {} bytes is above what may lie in the staging folder; not saved",
                       number, file.reserved));
    co_return std::nullopt;
  }
  staged_bytes_ += file.reserved;
  const Nanos begin = parts_.clock.now();
  const Status done = co_await slot_action(upstream_, number, "save", name, settings_.authorization);
  const std::chrono::duration<double> pause = parts_.clock.now() - begin;
  file.pause = pause.count();
  if (done && file.server == server_) co_return file;
  static_cast<void>(remove_file(file.path));
  staged_bytes_ -= file.reserved;
  if (!done && file.server == server_) report(done.error().message);
  co_return std::nullopt;
}

// Stores of it what is not there yet.
Task<void> Gateway::keep(SavedFile file) {
  ++keeping_;
  const std::uint64_t budget = budget_.available(parts_.clock.now());
  const auto saved = co_await offload(
      parts_.worker, [&] { return keep_file(*file.contexts, file.tenant, file.path, file.known, budget, file.hints); });
  static_cast<void>(remove_file(file.path));
  staged_bytes_ -= file.reserved;
  --keeping_;
  if (!saved) {
    report(saved.error().message);
    co_return;
  }
  ++counters_.saves;
  counters_.saved_tokens += saved->kept.new_tokens;
  counters_.saved_bytes += saved->kept.new_bytes;
  counters_.unsaved_tokens += saved->kept.refused_tokens;
  counters_.save_seconds_max = std::max(counters_.save_seconds_max, file.pause);
  budget_.spend(saved->kept.new_bytes);
  if (file.server == server_) {
    const Slot& now = slots_[static_cast<std::size_t>(file.slot)];
    if (now.used == file.use) file.outlook = now.outlook;  // said meanwhile
  }
  if (saved->kept.end) note_session(file, *saved->kept.end);
  if (file.server != server_) co_return;
  const double bytes = static_cast<double>(saved->tokens.size() * costs_.token_bytes);
  if (bytes > 1e6) save_bytes_per_second_ = bytes / std::max(file.pause, 1e-3);
  Slot& slot = slots_[static_cast<std::size_t>(file.slot)];
  if (slot.used == file.use) slot.tokens = saved->tokens;  // nobody has used it since
}

// The slot is the caller's, who waits for the server at most.
Task<void> Gateway::save_before_loss(int number) {
  auto file = co_await take_file(number);
  if (!file) co_return;
  file->use = 0;  // the slot holds something else by then
  net::co_spawn(parts_.loop, keep(std::move(*file)), net::detached);
}

Task<void> Gateway::finish(Duration time_max) {
  finishing_ = true;
  const Nanos deadline = parts_.clock.now() + time_max;
  net::steady_timer timer(parts_.loop);
  const auto left = [this] {
    return saving_ || keeping_ > 0 || active_ > 0 ||
           std::ranges::any_of(slots_, [](const Slot& slot) { return slot.unsaved && !slot.busy; });
  };
  while (state_ == State::ready && left() && parts_.clock.now() < deadline) {
    save_when_idle();
    timer.expires_after(10ms);
    co_await timer.async_wait(as_values);
  }
}

}  // namespace artesian
