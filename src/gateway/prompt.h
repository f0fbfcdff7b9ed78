// What a request means to the gateway: whether the server will take a slot for it, where its tokens come from, and what
// an answer says about how it was made. Bodies are read, never rewritten: the one change is a slot number put in front.
//
// Pure; safe from any thread.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "format/slot_file.h"

namespace artesian {

enum class PromptKind {
  none,      // takes no slot, or is nothing that we understand: passed on
  chat,      // /apply-template, then /tokenize, give the tokens
  text,      // /tokenize does
  tokens,    // they are in the request
  pinned,    // goes to the slot that we name; its tokens are seen afterwards
  unpinned,  // goes to a slot, or to several, that the server chooses
  settings,  // changes what the model computes from now on
};

struct PromptRequest {
  PromptKind kind = PromptKind::none;
  std::vector<Token> tokens;  // kind tokens
  std::string tokenize;       // kind text: the body for /tokenize
  std::string chat;           // kind chat: the body for /apply-template; empty: the request's own
  bool named = true;          // false: the server takes a slot by what slots hold, whatever we name
  std::string salt;           // the request's cache_salt
  bool reuse = true;          // false: it wants its prompt computed
  bool keep = true;           // false: what the slot holds afterwards is not what the tokens alone would give
};

// `path` without a query.
PromptRequest read_prompt(std::string_view method, std::string_view path, std::string_view body);

// The body for /tokenize, as the server tokenizes a prompt.
std::string tokenize_body(std::string_view prompt);

// The same JSON object with "id_slot" as its first member. The object has none (see read_prompt).
std::string with_slot(std::string_view body, int slot);

// The `timings` of an answer, found near its end; of a stream, in its last event. Where it has none, its `usage`, which
// in a stream of /v1/messages is at the beginning.
struct Timings {
  std::uint64_t cached = 0, computed = 0;  // tokens of the prompt
  double prompt_ms = 0;                    // 0: not said
  double tokens_per_second() const { return prompt_ms > 0 ? 1000 * static_cast<double>(computed) / prompt_ms : 0; }
};
std::optional<Timings> find_timings(std::string_view end_of_answer);
std::optional<Timings> find_usage(std::string_view part_of_answer);

}  // namespace artesian
