// What a client says of its session in headers: that it pauses for a tool and when it will be back, or that it has
// ended. Read strictly; pure.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <string_view>

#include "artesian/store.h"
#include "base/result.h"

namespace artesian {

constexpr std::string_view session_header = "X-Artesian-Session";
constexpr std::string_view session_state_header = "X-Artesian-Session-State";
constexpr std::string_view session_back_header = "X-Artesian-Back-In";

struct SessionHint {
  std::string name;                             // empty: the conversation of this request
  Outlook outlook = Outlook::unknown;           // once the request is answered
  std::optional<std::chrono::seconds> back_in;  // of an awaited one
};

// The values of the three headers; empty: not there. invalid with the header's name and what it takes.
Result<SessionHint> read_session_hint(std::string_view name, std::string_view state, std::string_view back_in);

}  // namespace artesian
