#include "bench/kv_trace.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>
#include <unordered_map>

namespace artesian::bench {

namespace {

bool is_count(const nlohmann::json& line, const char* key) {
  return line.is_object() && line.contains(key) && line[key].is_number_unsigned();
}

}  // namespace

Result<KvTrace> parse_kv_trace(std::string_view text, std::string_view where) {
  KvTrace trace;
  std::unordered_map<std::uint64_t, std::uint32_t> ids;
  std::istringstream lines{std::string(text)};
  std::string line;
  for (std::size_t number = 1; std::getline(lines, line); ++number) {
    if (line.empty()) continue;
    const auto json = nlohmann::json::parse(line, nullptr, false);
    if (!is_count(json, "timestamp") || !is_count(json, "input_length") || !json.contains("hash_ids") ||
        !json["hash_ids"].is_array()) {
      return fail(Code::corrupt, "{}: line {}: a request has timestamp, input_length and hash_ids", where, number);
    }
    KvRequest request;
    const auto ms = json["timestamp"].get<std::uint64_t>();
    const auto tokens = json["input_length"].get<std::uint64_t>();
    if (ms > 1'000'000'000'000'000 / 1000 || tokens > UINT32_MAX) {
      return fail(Code::corrupt, "{}: line {}: timestamp or input_length is beyond all bounds", where, number);
    }
    request.when = std::chrono::milliseconds(ms);
    request.tokens = static_cast<std::uint32_t>(tokens);
    const auto output = json.value("output_length", nlohmann::json(0U));
    if (!output.is_number_unsigned() || output.get<std::uint64_t>() > UINT32_MAX) {
      return fail(Code::corrupt, "{}: line {}: output_length is no number of tokens", where, number);
    }
    request.output = output.get<std::uint32_t>();
    for (const auto& id : json["hash_ids"]) {
      if (!id.is_number_unsigned()) return fail(Code::corrupt, "{}: line {}: an id is no number", where, number);
      const auto next = static_cast<std::uint32_t>(ids.size());
      request.blocks.push_back(ids.try_emplace(id.get<std::uint64_t>(), next).first->second);
    }
    if (request.blocks.size() != (tokens + kv_block_tokens - 1) / kv_block_tokens) {
      return fail(Code::corrupt, "{}: line {}: {} ids for {} tokens", where, number, request.blocks.size(), tokens);
    }
    if (!trace.requests.empty() && request.when < trace.requests.back().when) {
      return fail(Code::corrupt, "{}: line {}: time goes back", where, number);
    }
    trace.block_uses += request.blocks.size();
    trace.requests.push_back(std::move(request));
  }
  if (trace.block_uses == 0) return fail(Code::corrupt, "{}: no requests", where);
  trace.distinct = static_cast<std::uint32_t>(ids.size());
  return trace;
}

Result<KvTrace> read_kv_trace(const std::filesystem::path& file) {
  std::ifstream in(file, std::ios::binary);
  std::ostringstream text;
  if (!in || !(text << in.rdbuf())) return fail(Code::not_found, "{}: cannot be read as a trace", file.string());
  return parse_kv_trace(text.str(), file.string());
}

}  // namespace artesian::bench
