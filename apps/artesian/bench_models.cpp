#include "bench_models.h"

#include <algorithm>
#include <filesystem>

#include "bench/model_gen/file_sink.h"
#include "bench/model_gen/model_gen.h"
#include "platform/file.h"
#include "platform/shared_mapping.h"
#include "stream/file_source.h"

namespace artesian::cli {
namespace {

using bench::BenchModel;

struct Generated {
  BenchModel model;
  std::string_view preset, name;
};
constexpr Generated generated[] = {{BenchModel::moe, "bench-moe", "MoE"},
                                   {BenchModel::flat, "bench-moe-flat", "MoE, flat routing"},
                                   {BenchModel::dense, "bench-dense", "dense"}};

std::string models_folder(const Context& context) {
  return context.cache_dir + "/artesian/models";
}

// Beside, then renamed: what has the name is whole. Written through, so that its cached pages can be forgotten.
Status generate(const ModelSpec& spec, ByteSource& tokenizer, const std::string& path) {
  const std::string part = path + ".part";
  if (auto written = generate_model(spec, tokenizer, part, open_file_sink); !written) return fail(written.error());
  const auto file = File::open(part, {});
  if (!file) return fail(file.error());
  if (auto synced = file->sync_data(); !synced) return synced;
  std::error_code error;
  std::filesystem::rename(part, path, error);
  if (error) return fail(Code::device_failed, "{}: cannot be named {}: {}", part, path, error.message());
  return {};
}

}  // namespace

bool BenchModels::suits(const bench::WeightsCase& info) const {
  if (given.empty()) return true;
  if (given_has_experts) return info.model == BenchModel::moe;
  return info.model == BenchModel::dense || (info.model == BenchModel::moe && !info.name.starts_with("moe."));
}

Result<std::string> find_real_model(const Context& context) {
  if (!context.model.empty()) return context.model;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(models_folder(context), error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("SmolLM2") && name.ends_with(".gguf")) return entry.path().string();
  }
  return fail(Code::not_found,
              "{} holds no SmolLM2*.gguf, whose tokenizer generated models get too; ./quickstart brings it, "
              "or name a GGUF with --tokenizer",
              models_folder(context));
}

Result<BenchModels> find_bench_models(const std::string& path) {
  BenchModels models;
  for (const Generated& one : generated) models.names[one.model] = one.name;
  if (path.empty()) return models;
  const auto model = open_model_files(path);
  if (!model) return fail(model.error());
  models.given = path;
  models.given_has_experts = model->facts.expert_count > 0;
  models.given_bytes = model->tensor_bytes();
  for (const Generated& one : generated) {
    models.files[one.model] = model->paths;
    models.names[one.model] = std::filesystem::path(path).filename().string();
  }
  return models;
}

Status make_bench_models(BenchModels& models, const std::set<BenchModel>& wanted, const std::string& tokenizer,
                         const Context& context, const std::function<void(const std::string&)>& report) {
  if (!models.given.empty()) return {};
  for (const Generated& one : generated) {
    if (!wanted.contains(one.model)) continue;
    const std::string path = fmt::format("{}/{}.gguf", models_folder(context), one.preset);
    models.files[one.model] = {path};
    if (file_exists(path)) continue;
    const auto from = tokenizer.empty() ? find_real_model(context) : Result<std::string>(tokenizer);
    if (!from) return fail(from.error());
    auto source = open_file_source(*from);
    if (!source) return fail(source.error());
    std::error_code error;
    std::filesystem::create_directories(models_folder(context), error);
    if (error) return fail(Code::device_failed, "{}: cannot be made: {}", models_folder(context), error.message());
    report(fmt::format("generating {}, 1.4 to 1.5 GB, kept there", path));
    const auto preset = std::ranges::find(model_presets(), one.preset, &ModelPreset::name);
    if (auto made = generate(preset->spec, **source, path); !made) return made;
  }
  return {};
}

}  // namespace artesian::cli
