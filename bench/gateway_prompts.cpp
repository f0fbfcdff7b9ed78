#include "bench/gateway_prompts.h"

#include <array>
#include <nlohmann/json.hpp>
#include <random>
#include <string_view>

namespace artesian::bench {

namespace {

constexpr std::array<std::string_view, 64> vocabulary = {
    "the",   "water",  "rises", "from",   "a",     "deep",   "well",   "in",     "old",  "stone", "town",
    "where", "people", "build", "houses", "of",    "wood",   "and",    "clay",   "near", "river", "that",
    "flows", "to",     "sea",   "every",  "year",  "they",   "plant",  "fields", "with", "grain", "after",
    "rain",  "falls",  "on",    "hills",  "when",  "winter", "comes",  "snow",   "lies", "white", "over",
    "road",  "some",   "birds", "fly",    "south", "while",  "others", "stay",   "by",   "fire",  "men",
    "tell",  "long",   "story", "about",  "time",  "before", "first",  "king",   "came"};

}  // namespace

std::string words(std::uint64_t seed, std::uint32_t count) {
  std::mt19937_64 random(seed);
  std::string text;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (i > 0) text += ' ';
    text += vocabulary[random() % vocabulary.size()];
  }
  return text;
}

std::string question(const std::string& text, const std::string& asked) {
  return text + ". " + asked;
}

std::string chat_body(const std::vector<std::string>& turns, std::uint32_t answer_tokens) {
  nlohmann::json messages = nlohmann::json::array();
  for (std::size_t i = 0; i < turns.size(); ++i) {
    messages.push_back({{"role", i % 2 == 0 ? "user" : "assistant"}, {"content", turns[i]}});
  }
  // The end of the text is a token like any other, so that an answer has its length.
  return nlohmann::json{{"messages", messages}, {"stream", true}, {"max_tokens", answer_tokens},
                        {"temperature", 0},     {"seed", 1},      {"ignore_eos", true}}
      .dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

}  // namespace artesian::bench
