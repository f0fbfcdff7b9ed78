#include "bench/engine_output.h"

#include <charconv>
#include <optional>

namespace artesian::bench {

namespace {

struct Timed {
  double seconds = 0;
  std::uint64_t count = 0;
};

template <typename T>
bool take_number(std::string_view& text, T& number) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{}) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  return true;
}

bool take_text(std::string_view& text, std::string_view wanted) {
  text.remove_prefix(std::min(text.find_first_not_of(' '), text.size()));
  if (!text.starts_with(wanted)) return false;
  text.remove_prefix(wanted.size());
  return true;
}

// "= 1579.41 ms / 244 tokens ...": what follows the name.
std::optional<Timed> parse_value(std::string_view rest) {
  Timed timed;
  double milliseconds = 0;
  if (!take_text(rest, "=") || !take_number(rest, milliseconds) || !take_text(rest, "ms") || !take_text(rest, "/") ||
      !take_number(rest, timed.count) || milliseconds < 0) {
    return std::nullopt;
  }
  timed.seconds = milliseconds / 1e3;
  return timed;
}

}  // namespace

Result<EngineTimings> parse_timings(std::string_view text) {
  constexpr std::string_view name = "eval time", prompt_name = "prompt eval time";
  std::optional<Timed> prompt, decode;
  for (auto at = text.find(name); at != std::string_view::npos; at = text.find(name, at + 1)) {
    const auto value = parse_value(text.substr(at + name.size(), text.find('\n', at) - at - name.size()));
    if (!value) continue;
    const bool of_prompt = text.substr(0, at + name.size()).ends_with(prompt_name);
    (of_prompt ? prompt : decode) = value;
  }
  if (!prompt) return fail(Code::corrupt, "the engine did not say how long the prompt took (\"{} =\")", prompt_name);
  if (!decode) return fail(Code::corrupt, "the engine did not say how long decoding took (\"{} =\")", name);
  EngineTimings timings;
  timings.prompt_tokens = prompt->count;
  timings.prompt_seconds = prompt->seconds;
  timings.decode_tokens = decode->count;
  timings.decode_seconds = decode->seconds;
  return timings;
}

}  // namespace artesian::bench
