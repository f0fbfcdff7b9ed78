// artesian-modelgen: argument parsing and wiring of the model generator.
#include <fmt/core.h>

#include <CLI/CLI.hpp>

#include "base/units.h"
#include "bench/model_gen/file_sink.h"
#include "bench/model_gen/model_gen.h"
#include "stream/file_source.h"

namespace {

using namespace artesian;

struct Options {
  std::string preset, tokenizer, out, routing;
  ModelSpec spec;
};

std::string names(const auto& rows) {
  std::string text;
  for (const auto& row : rows) text += fmt::format("\n  {:16}{}", row.name, row.summary);
  return text;
}

void add_options(CLI::App& app, Options& options) {
  ModelSpec& spec = options.spec;
  app.add_option("--preset", options.preset,
                 "Start from one of these; other options change it:" + names(model_presets()));
  app.add_option("--arch", spec.arch, "Architecture:" + names(model_archs()));
  app.add_option("--layers", spec.layers, "Layers");
  app.add_option("--width", spec.width, "Embedding length, elements");
  app.add_option("--ff", spec.ff, "Feed-forward length of one expert or dense layer, elements");
  app.add_option("--experts", spec.experts, "Experts of a layer");
  app.add_option("--used", spec.used, "Experts used for a token");
  app.add_option("--heads", spec.heads, "Attention heads");
  app.add_option("--kv-heads", spec.kv_heads, "Heads of keys and values");
  app.add_option("--head-size", spec.head_size, "Elements of a head; 0: width / heads");
  app.add_option("--vocab", spec.vocab, "Keep so many tokens of the tokenizer; 0: all");
  app.add_option("--context", spec.context, "Context length, tokens");
  app.add_option("--type", spec.type, "ggml type of the weights, or mixed: Q4_K with Q6_K down on half the layers");
  app.add_option("--shards", spec.shards, "Files to write");
  app.add_option("--seed", spec.seed, "Seed; the same one gives the same bytes");
  app.add_option("--routing", options.routing,
                 "random, or flat: nearly uniform over the experts, other ones each token")
      ->check(CLI::IsMember({"random", "flat"}));
  app.add_flag("--tied,!--untied", spec.tied, "Use the embedding as output matrix");
  app.add_flag("--fused", spec.fused, "Gate and up experts in one tensor");
  app.add_option("--tokenizer", options.tokenizer, "GGUF whose tokenizer is copied")->required();
  app.add_option("--out", options.out, "File to write")->required();
}

// Presets come first, so that the other options change them: the command line is read twice.
Status apply_preset(Options& options) {
  if (options.preset.empty()) return {};
  for (const ModelPreset& preset : model_presets()) {
    if (preset.name != options.preset) continue;
    options.spec = preset.spec;
    return {};
  }
  return fail(Code::invalid, "--preset {}: there is no such preset", options.preset);
}

Status generate(const Options& options) {
  auto tokenizer = open_file_source(options.tokenizer);
  if (!tokenizer) return fail(std::move(tokenizer.error()));
  auto paths = generate_model(options.spec, **tokenizer, options.out, open_file_sink);
  if (!paths) return fail(std::move(paths.error()));
  auto model = open_model_files(paths->front());  // what was written is what a reader finds
  if (!model) return fail(std::move(model.error()));
  fmt::print("{}: {} in {} tensors, {} file(s)\n", paths->front(), format_bytes(model->tensor_bytes()),
             model->tensors.size(), paths->size());
  return {};
}

int run(int argc, char** argv) {
  Options options;
  for (int pass = 0; pass < 2; ++pass) {
    CLI::App app("Write a model of random weights that llama.cpp loads and runs.");
    app.footer(
        "Example:\n  artesian-modelgen --preset bench-moe --tokenizer SmolLM2.gguf --out bench-moe.gguf\n"
        "  artesian-modelgen --arch gpt-oss --type MXFP4 --vocab 2048 --tokenizer SmolLM2.gguf --out small.gguf");
    add_options(app, options);
    CLI11_PARSE(app, argc, argv);
    if (pass > 0) break;
    if (auto applied = apply_preset(options); !applied) {
      fmt::print(stderr, "artesian-modelgen: {}\n", applied.error().message);
      return 2;
    }
  }
  if (!options.routing.empty()) options.spec.routing = options.routing == "flat" ? Routing::flat : Routing::random;
  if (auto done = generate(options); !done) {
    fmt::print(stderr, "artesian-modelgen: {}\n", done.error().message);
    return 1;
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    fmt::print(stderr, "artesian-modelgen: {}\n", error.what());
    return 1;
  }
}
