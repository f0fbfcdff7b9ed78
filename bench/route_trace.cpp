#include "bench/route_trace.h"

#include <algorithm>
#include <charconv>
#include <fstream>
#include <optional>
#include <random>
#include <string_view>

namespace artesian::bench {

namespace {

constexpr std::uint32_t layers_max = 4096;
constexpr std::uint32_t experts_max = 65536;

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// The value of key=N in a header line.
std::optional<std::uint64_t> header_field(std::string_view line, std::string_view key) {
  const std::string wanted = " " + std::string(key) + "=";
  const std::size_t at = line.find(wanted);
  if (at == std::string_view::npos) return std::nullopt;
  const std::string_view rest = line.substr(at + wanted.size());
  return number(rest.substr(0, rest.find(' ')));
}

struct Row {
  std::uint64_t phase = 0, step = 0, layer = 0, slot = 0, expert = 0;
};

std::optional<Row> parse_row(std::string_view line) {
  std::uint64_t fields[6] = {};  // turn,phase,step,layer,slot,expert
  for (std::uint64_t& field : fields) {
    const std::size_t comma = line.find(',');
    if (comma == std::string_view::npos) return std::nullopt;
    const auto value = number(line.substr(0, comma));
    if (!value) return std::nullopt;
    field = *value;
    line.remove_prefix(comma + 1);
  }
  return Row{fields[1], fields[2], fields[3], fields[4], fields[5]};
}

class Reader {
 public:
  Reader(std::string path, std::string name) : path_(std::move(path)) { trace_.name = std::move(name); }

  Status line(std::string_view text) {
    ++line_;
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    if (text.starts_with('#')) return header(text);
    if (text.empty() || text.starts_with("turn,")) return {};
    return row(text);
  }

  Result<RouteTrace> finish() {
    if (trace_.layers.empty())
      return fail(Code::corrupt, "{}: no header line with n_layer, n_expert and n_expert_used", path_);
    for (std::size_t i = 0; i < trace_.layers.size(); ++i) {
      const ExpertLayer& layer = trace_.layers[i];
      if (layer.expert_bytes == 0)
        return fail(Code::corrupt, "{}: no header line gives expert_bytes of layer {}", path_, i);
      if (trace_.decode[i].size() != trace_.decode[0].size() || trace_.decode[i].size() % layer.used != 0) {
        return fail(Code::corrupt, "{}: layer {} has {} decode rows where layer 0 has {}", path_, i,
                    trace_.decode[i].size(), trace_.decode[0].size());
      }
    }
    trace_.decode_steps = trace_.decode[0].size() / trace_.layers[0].used;
    if (trace_.decode_steps == 0) return fail(Code::corrupt, "{}: no decode rows", path_);
    return std::move(trace_);
  }

 private:
  template <typename... Args>
  std::unexpected<Error> broken(fmt::format_string<Args...> format, Args&&... args) const {
    return fail(Code::corrupt, "{}: line {}: {}", path_, line_, fmt::format(format, std::forward<Args>(args)...));
  }

  Status header(std::string_view text) {
    if (const auto count = header_field(text, "n_layer")) {
      const auto experts = header_field(text, "n_expert");
      const auto used = header_field(text, "n_expert_used");
      if (!experts || !used || *count == 0 || *count > layers_max || *experts > experts_max || *used == 0 ||
          *used > *experts) {
        return broken("n_layer, n_expert and n_expert_used do not describe a routed model");
      }
      trace_.layers.assign(*count,
                           ExpertLayer{0, static_cast<std::uint32_t>(*experts), static_cast<std::uint32_t>(*used)});
      trace_.decode.assign(*count, {});
      return {};
    }
    if (const auto layer = header_field(text, "layer")) {
      const auto bytes = header_field(text, "expert_bytes");
      if (*layer >= trace_.layers.size() || !bytes) return broken("layer and expert_bytes expected, below n_layer");
      trace_.layers[*layer].expert_bytes = *bytes;
    }
    return {};
  }

  Status row(std::string_view text) {
    const auto parsed = parse_row(text);
    if (!parsed) return broken("six numbers turn,phase,step,layer,slot,expert expected");
    if (parsed->layer >= trace_.layers.size()) return broken("layer {} of {}", parsed->layer, trace_.layers.size());
    const ExpertLayer& layer = trace_.layers[parsed->layer];
    if (parsed->expert >= layer.experts) return broken("expert {} of {}", parsed->expert, layer.experts);
    if (parsed->phase != 1) return {};
    auto& uses = trace_.decode[parsed->layer];
    const std::size_t slot = uses.size() % layer.used;
    if (parsed->slot != slot) return broken("slot {} where {} was due", parsed->slot, slot);
    if (parsed->layer == 0 && slot == 0) step_.reset();
    if (step_ && *step_ != parsed->step) return broken("step {} inside step {}", parsed->step, *step_);
    step_ = parsed->step;
    const auto expert = static_cast<ExpertIndex>(parsed->expert);
    if (std::find(uses.end() - static_cast<std::ptrdiff_t>(slot), uses.end(), expert) != uses.end()) {
      return broken("expert {} twice in one step", expert);
    }
    uses.push_back(expert);
    return {};
  }

  std::string path_;
  std::size_t line_ = 0;
  std::optional<std::uint64_t> step_;
  RouteTrace trace_;
};

}  // namespace

Result<RouteTrace> read_route_trace(const std::filesystem::path& file) {
  std::ifstream in(file);
  if (!in) return fail(Code::not_found, "{}: cannot be opened", file.string());
  std::string name = file.filename().string();
  Reader reader(file.string(), name.substr(0, name.find('.')));
  for (std::string line; std::getline(in, line);) {
    if (auto read = reader.line(line); !read) return fail(read.error());
  }
  if (in.bad()) return fail(Code::device_failed, "{}: cannot be read to its end", file.string());
  return reader.finish();
}

RouteTrace flat_route_trace(std::uint32_t layers, std::uint32_t experts, std::uint32_t used, std::size_t steps,
                            std::uint64_t seed) {
  constexpr std::uint64_t expert_bytes = 1'671'168;  // three Q8_0 matrices of 512 x 1024
  RouteTrace trace;
  trace.name = "flat";
  trace.layers.assign(layers, ExpertLayer{expert_bytes, experts, used});
  trace.decode.resize(layers);
  trace.decode_steps = steps;
  std::mt19937_64 random(seed);
  std::vector<ExpertIndex> deck(experts);
  for (ExpertIndex i = 0; i < experts; ++i) deck[i] = i;
  for (auto& uses : trace.decode) {
    uses.reserve(steps * used);
    for (std::size_t step = 0; step < steps; ++step) {
      for (std::uint32_t slot = 0; slot < used; ++slot) {  // the first cards of a shuffle
        std::swap(deck[slot], deck[slot + random() % (experts - slot)]);
        uses.push_back(deck[slot]);
      }
    }
  }
  return trace;
}

}  // namespace artesian::bench
