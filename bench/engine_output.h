// What llama.cpp's programs say about their own speed: the lines "prompt eval time" and "eval time" that they print at
// the end on stderr, whatever stands before them on the line (it changed between versions).
#pragma once

#include <cstdint>
#include <string_view>

#include "base/result.h"

namespace artesian::bench {

struct EngineTimings {
  std::uint64_t prompt_tokens = 0;  // evaluated as a batch
  double prompt_seconds = 0;
  std::uint64_t decode_tokens = 0;  // evaluated one at a time: the first comes from the prompt's batch
  double decode_seconds = 0;

  double prompt_rate() const { return rate(prompt_tokens, prompt_seconds); }  // tokens a second; 0: nothing measured
  double decode_rate() const { return rate(decode_tokens, decode_seconds); }

 private:
  static double rate(std::uint64_t tokens, double seconds) {
    return seconds > 0 ? static_cast<double>(tokens) / seconds : 0;
  }
};

// Of the last such lines in the text. Code::corrupt where one of the two is not there or not as expected.
Result<EngineTimings> parse_timings(std::string_view text);

}  // namespace artesian::bench
