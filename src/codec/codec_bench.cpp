// What the exponent codec saves and how fast, a core, beside copying the bytes. Every decoded block is compared.
// Numbers: of a file of them (--bf16=FILE, --fp16=FILE; FP8 is made of the BF16 ones), else made to look like KV:
// normally distributed, each channel with a scale of its own.
#include <benchmark/benchmark.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "base/units.h"
#include "codec/codec.h"

namespace artesian {
namespace {

using Bytes = std::vector<std::byte>;

constexpr std::size_t block_bytes = 2 * MiB;
constexpr std::size_t blocks_max = 32;

// Of a GPU engine's FP8 KV: one scale for all, so that the largest is just represented.
std::uint8_t to_fp8(float value, int exponent_bits) {
  const int mantissa_bits = 7 - exponent_bits, bias = (1 << (exponent_bits - 1)) - 1;
  if (value == 0) return 0;
  const int exponent = std::max(std::ilogb(value), 1 - bias);
  const auto steps = static_cast<long>(std::lround(std::ldexp(std::fabs(value), mantissa_bits - exponent)));
  const long code = ((exponent + bias - 1L) << mantissa_bits) + steps;
  return static_cast<std::uint8_t>(std::clamp(code, 0L, 126L) | (value < 0 ? 128 : 0));
}

float of_bf16(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

Bytes read_file(const std::string& path) {
  Bytes bytes(block_bytes * blocks_max);
  std::ifstream file(path, std::ios::binary);
  file.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
  bytes.resize(static_cast<std::size_t>(file.gcount()) / 2 * 2);
  if (bytes.size() < block_bytes) {
    std::fprintf(stderr, "codec_bench: %s: takes a file of at least %zu bytes\n", path.c_str(), block_bytes);
    std::exit(2);
  }
  return bytes;
}

std::vector<float> made_up() {
  constexpr std::size_t channels = 1024;
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 1);
  std::vector<float> scales(channels);
  for (float& scale : scales) scale = std::exp(normal(random));
  std::vector<float> out(4 * block_bytes / 2);
  for (std::size_t i = 0; i < out.size(); ++i) out[i] = normal(random) * scales[i % channels];
  return out;
}

template <typename Number, typename Convert>
Bytes converted(const std::vector<float>& values, Convert&& convert) {
  std::vector<Number> numbers(values.size());
  std::ranges::transform(values, numbers.begin(), convert);
  const auto bytes = std::as_bytes(std::span(numbers));
  return {bytes.begin(), bytes.end()};
}

std::map<ElementType, Bytes> data_of(const std::string& bf16_path, const std::string& fp16_path) {
  std::vector<float> values = made_up();
  std::map<ElementType, Bytes> data;
  data[ElementType::fp16] = fp16_path.empty()
                                ? converted<_Float16>(values, [](float x) { return static_cast<_Float16>(x); })
                                : read_file(fp16_path);
  if (bf16_path.empty()) {
    data[ElementType::bf16] = converted<std::uint16_t>(
        values, [](float x) { return static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(x) >> 16); });
  } else {
    data[ElementType::bf16] = read_file(bf16_path);
    std::vector<std::uint16_t> bits(data[ElementType::bf16].size() / 2);
    std::memcpy(bits.data(), data[ElementType::bf16].data(), bits.size() * 2);
    values.resize(bits.size());
    std::ranges::transform(bits, values.begin(), of_bf16);
    for (float& value : values) value = std::isfinite(value) ? value : 0;  // a header's bytes, taken for a number
  }
  data[ElementType::fp8_e4m3] = converted<std::uint8_t>(values, [](float x) { return to_fp8(x, 4); });
  data[ElementType::fp8_e5m2] = converted<std::uint8_t>(values, [](float x) { return to_fp8(x, 5); });
  return data;
}

struct Stored {
  std::span<const std::byte> raw;
  Bytes bytes;
  bool encoded;
};

std::vector<Stored> encode_all(Codec& codec, ElementType type, const Bytes& data) {
  std::vector<Stored> blocks;
  for (std::size_t from = 0; from + block_bytes <= data.size(); from += block_bytes) {
    const auto raw = std::span(data).subspan(from, block_bytes);
    Bytes out(block_bytes);
    const auto bytes = codec.encode(type, raw, out);
    out.resize(bytes.value_or(block_bytes));
    blocks.push_back({raw, std::move(out), bytes.has_value()});
  }
  return blocks;
}

void encode(benchmark::State& state, ElementType type, const Bytes& data) {
  const auto codec = find_codec(CodecId::exponent)->make();
  Bytes out(block_bytes);
  const std::size_t blocks = data.size() / block_bytes;
  std::size_t at = 0;
  for (auto _ : state) {
    benchmark::DoNotOptimize(codec->encode(type, std::span(data).subspan(at % blocks * block_bytes, block_bytes), out));
    ++at;
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(block_bytes));
}

void decode(benchmark::State& state, ElementType type, const Bytes& data) {
  const auto codec = find_codec(CodecId::exponent)->make();
  const std::vector<Stored> blocks = encode_all(*codec, type, data);
  std::size_t raw = 0, stored = 0, at = 0;
  for (const Stored& block : blocks) {
    raw += block.raw.size();
    stored += block.bytes.size();
  }
  Bytes out(block_bytes);
  for (auto _ : state) {
    const Stored& block = blocks[at++ % blocks.size()];
    if (!block.encoded || !codec->decode(block.bytes, out)) return state.SkipWithError("a block did not come back");
    state.PauseTiming();
    if (!std::ranges::equal(out, block.raw)) return state.SkipWithError("a block came back wrong");
    state.ResumeTiming();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(block_bytes));
  state.counters["saved_percent"] = 100. - 100. * static_cast<double>(stored) / static_cast<double>(raw);
}

void copy(benchmark::State& state, const Bytes& data) {
  Bytes out(block_bytes);
  const std::size_t blocks = data.size() / block_bytes;
  std::size_t at = 0;
  for (auto _ : state) {
    std::memcpy(out.data(), data.data() + at++ % blocks * block_bytes, block_bytes);
    benchmark::ClobberMemory();
  }
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(block_bytes));
}

}  // namespace
}  // namespace artesian

int main(int count, char** words) {
  using namespace artesian;
  benchmark::Initialize(&count, words);
  std::string bf16, fp16;
  for (int i = 1; i < count; ++i) {
    const std::string_view word = words[i];
    if (word.starts_with("--bf16=")) {
      bf16 = word.substr(7);
    } else if (word.starts_with("--fp16=")) {
      fp16 = word.substr(7);
    } else {
      std::fprintf(stderr, "codec_bench: %s: takes --bf16=FILE, --fp16=FILE and the benchmark library's options\n",
                   words[i]);
      return 2;
    }
  }
  const std::map<ElementType, Bytes> data = data_of(bf16, fp16);
  benchmark::RegisterBenchmark("copy", copy, data.at(ElementType::bf16));
  for (const auto& [name, type] :
       {std::pair{"bf16", ElementType::bf16}, std::pair{"fp16", ElementType::fp16},
        std::pair{"fp8_e4m3", ElementType::fp8_e4m3}, std::pair{"fp8_e5m2", ElementType::fp8_e5m2}}) {
    benchmark::RegisterBenchmark((std::string("encode/") + name).c_str(), encode, type, data.at(type));
    benchmark::RegisterBenchmark((std::string("decode/") + name).c_str(), decode, type, data.at(type));
  }
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
