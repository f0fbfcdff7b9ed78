// Requests of `artesian bench gateway`: text of common words, each of which is about one token, the same for the same
// seed; and the bodies that ask about it.
//
// Pure.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace artesian::bench {

// So many words. One sequence is the beginning of a longer one of the same seed.
std::string words(std::uint64_t seed, std::uint32_t count);

std::string question(const std::string& text, const std::string& asked);

// Of a conversation whose turns are the user's and the assistant's in turn: greedy, so many tokens of answer, streamed.
std::string chat_body(const std::vector<std::string>& turns, std::uint32_t answer_tokens);

}  // namespace artesian::bench
