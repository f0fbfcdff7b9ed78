// Recorded request traces: one JSON object a line with timestamp (ms), input_length, output_length if known (tokens),
// and hash_ids, one for each 512-token block of the prompt, chained: equal ids mean an equal prefix up to and with that
// block.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace artesian::bench {

constexpr std::uint32_t kv_block_tokens = 512;

struct KvRequest {
  Nanos when{0};
  std::uint32_t tokens = 0;           // of the prompt
  std::uint32_t output = 0;           // of the answer; 0 where the trace does not say
  std::vector<std::uint32_t> blocks;  // ids from 0 without gaps, in order of first sight
};

struct KvTrace {
  std::vector<KvRequest> requests;
  std::uint32_t distinct = 0;  // different blocks
  std::uint64_t block_uses = 0;
};

// Code::corrupt with the line that is wrong: not an object, no ids, a length that the ids do not fit, time going back.
Result<KvTrace> parse_kv_trace(std::string_view text, std::string_view where);
Result<KvTrace> read_kv_trace(const std::filesystem::path& file);

}  // namespace artesian::bench
