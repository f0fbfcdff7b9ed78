// artesian advise: which shipped drive fits a model under a load and a budget, why, and what the next better one
// brings.
#include <algorithm>
#include <memory>

#include "base/units.h"
#include "commands.h"
#include "nand/advice.h"
#include "nand_files.h"
#include "progress.h"
#include "sim/serving.h"
#include "stream/file_source.h"

namespace artesian::cli {
namespace {

struct AdviseCommand {
  std::string model, load, traces;
  nand::AdviceWants wants;
  std::uint64_t capacity = 0;
  bool json = false;
};

// What a token's keys and values take at 16 bits, as the file's metadata says.
Result<std::uint64_t> kv_token_bytes(const GgufModel& model, const std::string& path) {
  const GgufFile& file = model.files.front();
  const auto number = [&](const char* key) {
    return file.find_uint(model.facts.architecture + ".attention." + key).value_or(0);
  };
  const std::uint64_t heads = number("head_count"), kv_heads = number("head_count_kv");
  if (heads == 0 || model.facts.block_count == 0) {
    return fail(Code::invalid, "{}: does not say how many layers and attention heads it has", path);
  }
  const std::uint64_t head = model.facts.embedding_length / heads;
  const std::uint64_t key = number("key_length"), value = number("value_length");
  return model.facts.block_count * (kv_heads == 0 ? heads : kv_heads) *
         ((key == 0 ? head : key) + (value == 0 ? head : value)) * 2;
}

// A model's file says what a token's KV takes, a text with [model] in it all that the load says of a model.
Status take_model(nand::Workload& load, const std::string& path) {
  if (!path.ends_with(".gguf")) {
    const auto text = read_text(path);
    if (!text) return fail(text.error());
    return nand::parse_model(*text, path, load.serving);
  }
  const auto model = open_model_files(path);
  if (!model) return fail(model.error());
  const auto bytes = kv_token_bytes(*model, path);
  if (!bytes) return fail(bytes.error());
  load.serving.kv_token_bytes = *bytes;
  return {};
}

Result<int> advise(const AdviseCommand& command) {
  auto load = load_workload(command.load);
  if (!load) return fail(load.error());
  if (command.capacity != 0) load->capacity_bytes = command.capacity;
  if (auto taken = take_model(*load, command.model); !taken) return fail(taken.error());
  std::vector<nand::AdviceInput> inputs;
  {
    ProgressLine line;
    const auto count = static_cast<double>(nand::shipped_profiles().size());
    for (const auto& shipped : nand::shipped_profiles()) {
      auto profile = nand::shipped_profile(shipped.name);
      if (!profile) return fail(profile.error());
      const auto before = static_cast<double>(inputs.size());
      auto report = sim::run_any(*profile, *load, command.traces,
                                 [&](double part) { line.show((before + part) / count, std::string(shipped.name)); });
      if (!report && report.error().code != Code::invalid) return fail(report.error());
      nand::AdviceInput input{.profile = std::move(*profile)};
      if (report) {
        input.report = std::move(*report);
      } else {
        input.why_not = report.error().message;
      }
      inputs.push_back(std::move(input));
    }
  }
  // All of them refused: it is the load.
  if (std::ranges::none_of(inputs, [](const auto& input) { return input.report.has_value(); })) {
    return fail(Code::invalid, "{}", inputs.front().why_not);
  }
  const nand::Advice advice = nand::advise(inputs, command.wants);
  fmt::print("{}{}", command.json ? nand::advice_json(advice) : nand::advice_text(advice), command.json ? "\n" : "");
  return advice.best ? exit_ok : exit_missed;
}

}  // namespace

Action setup_advise(CLI::App& command, const Context& context) {
  auto options = std::make_shared<AdviseCommand>();
  options->traces = context.traces;
  command.add_option("--model", options->model, "A GGUF file, or a text with [model] in it, as in a workload's file")
      ->type_name("FILE")
      ->required();
  command.add_option("--load", options->load, "A workload's file")->type_name("FILE")->required();
  command.add_option("--budget", options->wants.budget_usd, "US dollars for a drive")
      ->type_name("USD")
      ->check(CLI::Range(1.0, 1e9))
      ->required();
  command.add_option("--years", options->wants.years, "That it must last; else the service years of its profile")
      ->check(CLI::Range(0.01, 100.0));
  command
      .add_option("--first-token", options->wants.first_token_s, "Seconds to the first token, 99th percentile at most")
      ->check(CLI::Range(1e-6, 1e6));
  command.add_option("--tokens", options->wants.tokens_per_s, "Tokens a second to be decoded at least")
      ->check(CLI::Range(1e-6, 1e9));
  add_size(command, "--capacity", options->capacity, "Of each drive that is simulated; else as the load says");
  command.add_flag("--json", options->json, "One JSON object");
  set_examples(command, {"artesian advise --model model.gguf --load kv.ini --budget 1000",
                         "artesian advise --model fast.ini --load both.ini --budget 2000 --years 3 --first-token 2",
                         "artesian advise --model model.gguf --load experts.ini --budget 500 --tokens 10 --json"});
  return [options] { return advise(*options); };
}

}  // namespace artesian::cli
