// What clients say of their sessions: facts for which slot to take and which blocks to evict.
#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>

#include "gateway/gateway.h"

namespace artesian {

namespace http = boost::beast::http;

namespace {

std::string_view header(const Request& request, std::string_view name) {
  const auto value = request[{name.data(), name.size()}];
  return {value.data(), value.size()};
}

}  // namespace

Result<SessionHint> Gateway::session_of(const Request& request) const {
  return read_session_hint(header(request, session_header), header(request, session_state_header),
                           header(request, session_back_header));
}

void Gateway::set_outlook(Slot& slot, const SessionHint& hint) {
  slot.session = hint.name;
  slot.outlook = hint.outlook;
  slot.back = hint.back_in ? parts_.clock.now() + *hint.back_in : Nanos::max();
}

void Gateway::count_outlook(const SessionHint& hint) {
  if (hint.outlook == Outlook::awaited) ++counters_.paused;
  if (hint.outlook == Outlook::ended) ++counters_.ended;
}

// One that did not come back when it was expected is like any other.
void Gateway::expire_outlooks() {
  const Nanos now = parts_.clock.now();
  for (Slot& slot : slots_) {
    if (slot.outlook == Outlook::awaited && slot.back < now) slot.outlook = Outlook::unknown;
  }
}

BlockHints Gateway::hints_of(const Slot& slot) const {
  BlockHints hints;
  if (!slot.session.empty()) {
    std::string name(reinterpret_cast<const char*>(slot.tenant.data()), slot.tenant.size());
    name += slot.session;
    const auto digest = sha256(std::as_bytes(std::span(name)));
    if (digest) std::memcpy(&hints.session, digest->data(), sizeof(hints.session));
  }
  const bool expected = slot.outlook == Outlook::awaited && slot.back != Nanos::max() && settings_.unix_ms;
  if (expected) {
    const auto left = std::max(slot.back - parts_.clock.now(), Nanos(0));
    const auto left_ms = std::chrono::duration_cast<std::chrono::milliseconds>(left).count();
    hints.next_use_ms = settings_.unix_ms() + static_cast<std::uint64_t>(left_ms);
  }
  return hints;
}

// Of a slot that was saved: its blocks are known now.
void Gateway::note_session(const SavedFile& file, const BlockKey& end) {
  file.contexts->expect(end, file.outlook);
  if (file.session.empty()) return;
  const auto same = [&](const Session& known) { return known.tenant == file.tenant && known.name == file.session; };
  auto place = std::ranges::find_if(sessions_, same);
  if (place == sessions_.end() && sessions_.size() < settings_.sessions_max) {
    place = sessions_.emplace(sessions_.end());
  } else if (place == sessions_.end()) {
    place = std::ranges::min_element(sessions_, {}, &Session::used);
  }
  *place = {.tenant = file.tenant, .name = file.session, .end = end, .used = ++uses_};
}

// POST /artesian/session: what is to come of a session that was named before. Its body may have its cache_salt.
Response Gateway::serve_session(const Request& request) {
  if (request.method() != http::verb::post) return error_answer(request, 405, "takes POST");
  const auto hint = session_of(request);
  if (!hint) return error_answer(request, 400, hint.error().message);
  if (hint->name.empty()) return error_answer(request, 400, fmt::format("{} names the session", session_header));
  const auto body = nlohmann::json::parse(request.body(), nullptr, false);
  const auto salt = body.is_object() ? body.value("cache_salt", nlohmann::json("")) : nlohmann::json("");
  const BlockKey tenant = tenant_of(request, salt.is_string() ? salt.get<std::string>() : "");
  bool known = false;
  for (Slot& slot : slots_) {
    if (slot.session != hint->name || slot.tenant != tenant) continue;
    set_outlook(slot, *hint);
    known = true;
  }
  for (const Session& session : sessions_) {
    if (session.name != hint->name || session.tenant != tenant) continue;
    if (contexts_) contexts_->expect(session.end, hint->outlook);
    known = true;
  }
  if (known) {
    count_outlook(*hint);
    return error_answer(request, 200, "");
  }
  return error_answer(request, 404, fmt::format("no session {} is known", hint->name));
}

}  // namespace artesian
