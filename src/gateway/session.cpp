#include "gateway/session.h"

#include <algorithm>
#include <array>
#include <charconv>

namespace artesian {
namespace {

constexpr std::size_t name_bytes_max = 64;
constexpr std::int64_t back_seconds_max = 7 * 24 * 3600;

struct State {
  std::string_view name;
  Outlook outlook;
};
constexpr std::array states = {State{"active", Outlook::unknown}, State{"paused", Outlook::awaited},
                               State{"ended", Outlook::ended}};

bool is_name_byte(char byte) {
  const bool letter = (byte >= 'a' && byte <= 'z') || (byte >= 'A' && byte <= 'Z');
  return letter || (byte >= '0' && byte <= '9') || byte == '-' || byte == '_' || byte == '.';
}

}  // namespace

Result<SessionHint> read_session_hint(std::string_view name, std::string_view state, std::string_view back_in) {
  SessionHint hint{.name = std::string(name), .back_in = std::nullopt};
  if (name.size() > name_bytes_max || !std::ranges::all_of(name, is_name_byte)) {
    return fail(Code::invalid, "{}: takes up to {} letters, digits, '-', '_' and '.'", session_header, name_bytes_max);
  }
  if (!state.empty()) {
    const auto* const known = std::ranges::find(states, state, &State::name);
    if (known == states.end()) return fail(Code::invalid, "{}: takes active, paused or ended", session_state_header);
    hint.outlook = known->outlook;
  }
  if (back_in.empty()) return hint;
  std::int64_t seconds = -1;
  const char* const end = back_in.data() + back_in.size();
  const auto [stop, error] = std::from_chars(back_in.data(), end, seconds);
  if (error != std::errc() || stop != end || seconds < 0 || seconds > back_seconds_max) {
    return fail(Code::invalid, "{}: takes whole seconds up to {}", session_back_header, back_seconds_max);
  }
  if (hint.outlook != Outlook::awaited) {
    return fail(Code::invalid, "{}: is said of a session that is paused", session_back_header);
  }
  hint.back_in = std::chrono::seconds(seconds);
  return hint;
}

}  // namespace artesian
