#include "gateway/prompt.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <nlohmann/json.hpp>

#include "gateway/chat_body.h"

namespace artesian {
namespace {

using nlohmann::json;

enum class Route { chat, messages, responses, completion, pinned, harmless, settings };

struct RouteInfo {
  std::string_view path;
  Route route;
};

// Every POST that is not here is taken for one that needs a slot of the server's choice.
constexpr std::array routes = {
    RouteInfo{"/v1/chat/completions", Route::chat},
    RouteInfo{"/chat/completions", Route::chat},
    RouteInfo{"/completion", Route::completion},
    RouteInfo{"/completions", Route::completion},
    RouteInfo{"/v1/completions", Route::completion},
    RouteInfo{"/infill", Route::pinned},
    RouteInfo{"/v1/responses", Route::responses},
    RouteInfo{"/responses", Route::responses},
    RouteInfo{"/v1/messages", Route::messages},
    RouteInfo{"/tokenize", Route::harmless},
    RouteInfo{"/detokenize", Route::harmless},
    RouteInfo{"/apply-template", Route::harmless},
    RouteInfo{"/v1/chat/completions/control", Route::harmless},
    RouteInfo{"/v1/chat/completions/input_tokens", Route::harmless},
    RouteInfo{"/chat/completions/input_tokens", Route::harmless},
    RouteInfo{"/v1/responses/input_tokens", Route::harmless},
    RouteInfo{"/responses/input_tokens", Route::harmless},
    RouteInfo{"/v1/messages/count_tokens", Route::harmless},
    RouteInfo{"/v1/streams/lookup", Route::harmless},
    RouteInfo{"/props", Route::settings},
    RouteInfo{"/lora-adapters", Route::settings},
};

std::int64_t number(const json& body, const char* name, std::int64_t otherwise) {
  const auto found = body.find(name);
  return found != body.end() && found->is_number() ? found->get<std::int64_t>() : otherwise;
}

// Whether the server, and not we, decides where this goes or what it is computed with.
bool for_the_server(const json& body) {
  return body.contains("id_slot") || body.contains("lora") || number(body, "n", 1) > 1 || number(body, "n_cmpl", 1) > 1;
}

bool only_text(const json& messages) {
  if (!messages.is_array()) return false;
  for (const json& message : messages) {
    if (!message.is_object()) return false;
    const auto content = message.find("content");
    if (content == message.end() || !content->is_array()) continue;
    for (const json& part : *content) {
      if (!part.is_object() || part.value("type", json()) != "text") return false;
    }
  }
  return true;
}

void read_text(const json& body, PromptRequest& request) {
  const auto prompt = body.find("prompt");
  if (prompt == body.end()) return;
  const bool is_list = prompt->is_array() && !prompt->empty();
  const auto is_token = [](const json& item) {
    return item.is_number_integer() && item >= 0 && item <= std::numeric_limits<Token>::max();
  };
  if (is_list && std::ranges::all_of(*prompt, is_token)) {
    request.kind = PromptKind::tokens;
    request.tokens = prompt->get<std::vector<Token>>();
  } else if (prompt->is_string()) {
    request.kind = PromptKind::text;
    request.tokenize = tokenize_body(prompt->get_ref<const std::string&>());
  } else {
    request.kind = PromptKind::unpinned;  // several prompts, media, or a mistake
  }
}

// What is not understood goes where it would have gone without us.
void read_converted(Route route, std::string_view text, PromptRequest& request) {
  auto chat = route == Route::messages ? chat_of_messages(text) : chat_of_responses(text);
  request.named = route == Route::responses;
  request.kind = chat ? PromptKind::chat : request.named ? PromptKind::pinned : PromptKind::unpinned;
  if (chat) request.chat = std::move(*chat);
}

std::optional<double> last_number(std::string_view text, std::string_view name) {
  // Inside a string the quotes would be escaped, so that this is a member's name.
  std::size_t at = text.rfind(name);
  while (at != std::string_view::npos && at > 0 && text[at - 1] == '\\') at = text.rfind(name, at - 1);
  if (at == std::string_view::npos) return std::nullopt;
  const char* begin = text.data() + at + name.size();
  const char* end = text.data() + text.size();
  while (begin != end && *begin == ' ') ++begin;
  double value = 0;
  const auto [stop, error] = std::from_chars(begin, end, value);
  if (error != std::errc() || stop == end || value < 0) return std::nullopt;
  return value;
}

}  // namespace

std::string tokenize_body(std::string_view prompt) {
  return json{{"content", prompt}, {"add_special", true}, {"parse_special", true}}.dump(-1, ' ', false,
                                                                                        json::error_handler_t::replace);
}

PromptRequest read_prompt(std::string_view method, std::string_view path, std::string_view text) {
  PromptRequest request;
  if (method != "POST" && method != "DELETE") return request;
  const auto* const route = std::ranges::find(routes, path, &RouteInfo::path);
  if (route == routes.end()) {
    request.kind = PromptKind::unpinned;
    return request;
  }
  if (route->route == Route::harmless) return request;
  if (route->route == Route::settings) {
    request.kind = PromptKind::settings;
    return request;
  }
  const json body = json::parse(text, nullptr, false);
  if (!body.is_object()) return request;  // the server says what is wrong with it
  if (const auto salt = body.find("cache_salt"); salt != body.end() && salt->is_string()) request.salt = *salt;
  if (const auto cache = body.find("cache_prompt"); cache != body.end()) request.reuse = *cache != false;
  request.keep = number(body, "n_cache_reuse", 0) <= 0;
  if (for_the_server(body)) {
    request.kind = PromptKind::unpinned;
  } else if (route->route == Route::pinned) {
    request.kind = PromptKind::pinned;
  } else if (route->route == Route::messages || route->route == Route::responses) {
    read_converted(route->route, text, request);
  } else if (route->route == Route::completion) {
    read_text(body, request);
  } else {
    const auto messages = body.find("messages");
    if (messages == body.end()) return request;
    request.kind = only_text(*messages) ? PromptKind::chat : PromptKind::unpinned;
  }
  return request;
}

std::string with_slot(std::string_view body, int slot) {
  const std::size_t brace = body.find('{');
  const std::size_t next = body.find_first_not_of(" \t\r\n", brace + 1);
  const bool empty = next != std::string_view::npos && body[next] == '}';
  std::string changed(body.substr(0, brace + 1));
  changed += fmt::format("\"id_slot\":{}{}", slot, empty ? "" : ",");
  changed += body.substr(brace + 1);
  return changed;
}

std::optional<Timings> find_timings(std::string_view end_of_answer) {
  const auto cached = last_number(end_of_answer, "\"cache_n\":");
  const auto computed = last_number(end_of_answer, "\"prompt_n\":");
  const auto ms = last_number(end_of_answer, "\"prompt_ms\":");
  if (!cached || !computed || !ms) return std::nullopt;
  return Timings{static_cast<std::uint64_t>(*cached), static_cast<std::uint64_t>(*computed), *ms};
}

std::optional<Timings> find_usage(std::string_view part_of_answer) {
  const auto number_of = [&](std::string_view name) { return last_number(part_of_answer, name); };
  const auto input = number_of("\"input_tokens\":");
  const auto beside = number_of("\"cache_read_input_tokens\":");  // of /v1/messages: not in the other number
  const auto within = number_of("\"cached_tokens\":");
  if (!input || (!beside && (!within || *within > *input))) return std::nullopt;
  const double cached = beside ? *beside : *within;
  return Timings{static_cast<std::uint64_t>(cached), static_cast<std::uint64_t>(beside ? *input : *input - cached), 0};
}

}  // namespace artesian
