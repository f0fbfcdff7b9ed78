#include "format/gguf_model.h"

#include <algorithm>
#include <numeric>
#include <tuple>

#include "format/gguf_scanner.h"

namespace artesian {
namespace {

// A number, or the largest of an array of them.
std::uint64_t uint_fact(const GgufFile& file, std::string_view key) {
  if (auto value = file.find_uint(key)) return *value;
  const auto found = file.metadata.find(key);
  if (found == file.metadata.end()) return 0;
  const auto* array = std::get_if<GgufArray>(&found->second);
  if (array == nullptr || array->numbers.empty()) return 0;
  const double largest = *std::ranges::max_element(array->numbers);
  constexpr double exact_max = 9007199254740992.0;  // 2^53; also keeps the conversion defined
  return largest > 0 && largest <= exact_max ? static_cast<std::uint64_t>(largest) : 0;
}

GgufFacts read_facts(const GgufFile& file) {
  GgufFacts facts;
  facts.architecture = file.find_string("general.architecture").value_or("");
  facts.name = file.find_string("general.name").value_or("");
  const auto fact = [&](std::string_view what) {
    return uint_fact(file, facts.architecture + "." + std::string(what));
  };
  facts.block_count = fact("block_count");
  facts.expert_count = fact("expert_count");
  facts.expert_used_count = fact("expert_used_count");
  facts.embedding_length = fact("embedding_length");
  facts.context_length = fact("context_length");
  facts.feed_forward_length = fact("feed_forward_length");
  return facts;
}

Result<GgufFile> parse_path(const std::string& path, const OpenSource& open) {
  auto source = open(path);
  if (!source) return fail(std::move(source.error()));
  return GgufFile::parse(**source);
}

void take_tensors(GgufModel& model, GgufFile file) {
  const auto index = static_cast<std::uint32_t>(model.files.size());
  for (GgufTensor& tensor : file.tensors) {
    tensor.file = index;
    model.tensors.push_back(std::move(tensor));
  }
  file.tensors = {};
  model.paths.push_back(file.path);
  model.files.push_back(std::move(file));
}

Status add_shards(GgufModel& model, std::uint64_t count, const OpenSource& open) {
  const std::string first = model.paths.front();
  const std::uint64_t number = model.files.front().find_uint("split.no").value_or(0);
  if (number != 0) {
    return fail(Code::invalid, "{}: this is shard {} of {}; give the first one", first, number + 1, count);
  }
  const auto prefix = shard_prefix(first, 0, count);
  if (!prefix) {
    return fail(Code::invalid, "{}: the first of {} shards must be named like {}", first, count,
                shard_path("NAME", 0, count));
  }
  for (std::uint64_t i = 1; i < count; ++i) {
    const std::string path = shard_path(*prefix, i, count);
    auto file = parse_path(path, open);
    if (!file && file.error().code == Code::not_found) {
      return fail(Code::not_found, "{}: shard {} of {} is missing", path, i + 1, count);
    }
    if (!file) return fail(std::move(file.error()));
    file->path = path;
    const auto said = file->find_uint("split.no");
    if (said != i) {
      return fail(Code::corrupt, "{}: this should be shard {} of {}, but split.no says {}", path, i + 1, count,
                  said ? std::to_string(*said) : "nothing");
    }
    take_tensors(model, std::move(*file));
  }
  for (const GgufFile& file : model.files) {
    const auto tensors = file.find_uint("split.tensors.count");
    if (!tensors || *tensors == model.tensors.size()) continue;
    return fail(Code::corrupt, "{}: the {} shards hold {} tensors where split.tensors.count says {}", file.path, count,
                model.tensors.size(), *tensors);
  }
  return {};
}

Status index_by_name(GgufModel& model) {
  model.by_name.resize(model.tensors.size());
  std::iota(model.by_name.begin(), model.by_name.end(), 0U);
  const auto name = [&](std::uint32_t i) -> const std::string& { return model.tensors[i].name; };
  std::ranges::sort(model.by_name,
                    [&](std::uint32_t a, std::uint32_t b) { return std::tie(name(a), a) < std::tie(name(b), b); });
  const auto twice = std::ranges::adjacent_find(model.by_name, {}, name);
  if (twice == model.by_name.end()) return {};
  const GgufTensor& tensor = model.tensors[*(twice + 1)];
  return fail(Code::corrupt, "{}: offset {}: tensor '{}' is in shard {} as well", model.paths[tensor.file],
              tensor.offset, printable(tensor.name), model.tensors[*twice].file + 1);
}

}  // namespace

std::string shard_path(std::string_view prefix, std::uint64_t index, std::uint64_t count) {
  return fmt::format("{}-{:05}-of-{:05}.gguf", prefix, index + 1, count);
}

std::optional<std::string> shard_prefix(std::string_view path, std::uint64_t index, std::uint64_t count) {
  const std::string suffix = shard_path("", index, count);
  if (path.size() <= suffix.size() || !path.ends_with(suffix)) return std::nullopt;
  return std::string(path.substr(0, path.size() - suffix.size()));
}

const GgufTensor* GgufModel::find(std::string_view name) const {
  const auto key = [&](std::uint32_t i) -> std::string_view { return tensors[i].name; };
  const auto found = std::ranges::lower_bound(by_name, name, {}, key);
  return found != by_name.end() && key(*found) == name ? &tensors[*found] : nullptr;
}

std::uint64_t GgufModel::tensor_bytes() const {
  return std::accumulate(tensors.begin(), tensors.end(), std::uint64_t{0},
                         [](std::uint64_t sum, const GgufTensor& tensor) { return sum + tensor.bytes; });
}

Result<GgufModel> open_model(const std::string& first_path, const OpenSource& open) {
  auto first = parse_path(first_path, open);
  if (!first) return fail(std::move(first.error()));
  first->path = first_path;
  GgufModel model;
  model.facts = read_facts(*first);
  const std::uint64_t count = first->find_uint("split.count").value_or(0);
  constexpr std::uint64_t shards_max = 65535;  // split.count is a u16 in files
  if (count > shards_max)
    return fail(Code::corrupt, "{}: split.count is {}, more than {}", first_path, count, shards_max);
  take_tensors(model, std::move(*first));
  if (count > 1) {
    if (auto added = add_shards(model, count, open); !added) return fail(std::move(added.error()));
  }
  if (auto indexed = index_by_name(model); !indexed) return fail(std::move(indexed.error()));
  return model;
}

}  // namespace artesian
