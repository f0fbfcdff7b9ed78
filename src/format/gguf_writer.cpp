#include "format/gguf_writer.h"

#include <algorithm>
#include <cassert>

#include "format/gguf_model.h"

namespace artesian {
namespace {

constexpr std::uint64_t round_up(std::uint64_t value, std::uint64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

// Counts what passes, to hold a filler to its word.
class CountingSink final : public ByteSink {
 public:
  explicit CountingSink(ByteSink& inner) : inner_(inner) {}
  Status write(std::span<const std::byte> bytes) override {
    count_ += bytes.size();
    return inner_.write(bytes);
  }
  std::uint64_t count() const { return count_; }

 private:
  ByteSink& inner_;
  std::uint64_t count_ = 0;
};

struct Shard {
  std::size_t first = 0;
  std::size_t count = 0;
};

std::vector<Shard> cut(const GgufPlan& plan, const GgufShardLimit& limit) {
  const std::size_t tensors = plan.tensors().size();
  std::vector<Shard> shards;
  if (limit.shards > 1) {
    for (std::size_t i = 0; i < limit.shards; ++i) {
      const std::size_t first = i * tensors / limit.shards;
      shards.push_back({first, (i + 1) * tensors / limit.shards - first});
    }
    return shards;
  }
  shards.push_back({});
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < tensors; ++i) {
    const std::uint64_t more = plan.tensors()[i].bytes;
    const bool full = (limit.tensors_max != 0 && shards.back().count >= limit.tensors_max) ||
                      (limit.bytes_max != 0 && bytes + more > limit.bytes_max);
    if (full && shards.back().count > 0) {
      shards.push_back({i, 0});
      bytes = 0;
    }
    ++shards.back().count;
    bytes += more;
  }
  return shards;
}

Status write_data(const GgufPlan& plan, const Shard& shard, ByteSink& sink, const FillTensor& fill) {
  const std::vector<std::byte> zeros(plan.alignment);
  for (std::size_t i = shard.first; i < shard.first + shard.count; ++i) {
    const GgufTensor& tensor = plan.tensors()[i];
    CountingSink counting(sink);
    if (auto filled = fill(tensor, counting); !filled) return filled;
    if (counting.count() != tensor.bytes) {
      return fail(Code::invalid, "tensor '{}': {} bytes were written where {} belong", tensor.name, counting.count(),
                  tensor.bytes);
    }
    const std::uint64_t padding = round_up(tensor.bytes, plan.alignment) - tensor.bytes;
    if (auto padded = sink.write(std::span(zeros).first(padding)); !padded) return padded;
  }
  return {};
}

}  // namespace

GgufBytes& GgufPlan::entry(std::string_view key, GgufKind kind) {
  ++entries_;
  return metadata_.string(key).kind(kind);
}

void GgufPlan::add_strings(std::string_view key, std::span<const std::string> values) {
  entry(key, GgufKind::array).kind(GgufKind::string).number<std::uint64_t>(values.size());
  for (const std::string& value : values) metadata_.string(value);
}

void GgufPlan::add_i32s(std::string_view key, std::span<const std::int32_t> values) {
  entry(key, GgufKind::array).kind(GgufKind::i32).number<std::uint64_t>(values.size()).raw(std::as_bytes(values));
}

void GgufPlan::add_tensor(std::string_view name, std::uint32_t type, std::initializer_list<std::uint64_t> ne) {
  GgufTensor tensor;
  tensor.name = name;
  tensor.type = type;
  assert(find_ggml_type(type) != nullptr && ne.size() >= 1 && ne.size() <= tensor.ne.size());
  std::ranges::copy(ne, tensor.ne.begin());
  assert(tensor.ne[0] % find_ggml_type(type)->block_elements == 0);
  tensor.bytes = tensor.matrix_bytes() * tensor.ne[2] * tensor.ne[3];
  tensors_.push_back(std::move(tensor));
  shapes_.push_back({static_cast<std::uint32_t>(ne.size())});
}

std::uint64_t GgufPlan::tensor_bytes() const {
  std::uint64_t sum = 0;
  for (const GgufTensor& tensor : tensors_) sum += tensor.bytes;
  return sum;
}

std::vector<std::byte> GgufPlan::header(std::size_t first_tensor, std::size_t tensor_count, std::uint64_t shard,
                                        std::uint64_t shard_count) const {
  GgufPlan extra;
  if (alignment != 32) extra.add_u32("general.alignment", alignment);
  if (shard_count > 1) {
    extra.add_u16("split.no", static_cast<std::uint16_t>(shard));
    extra.add_u16("split.count", static_cast<std::uint16_t>(shard_count));
    extra.add_i32("split.tensors.count", static_cast<std::int32_t>(tensors_.size()));
  }
  GgufBytes out;
  out.raw(std::as_bytes(std::span("GGUF", 4))).number<std::uint32_t>(3).number<std::uint64_t>(tensor_count);
  out.number<std::uint64_t>(extra.entries_ + (shard == 0 ? entries_ : 0));
  if (shard == 0) out.raw(metadata_.bytes());
  out.raw(extra.metadata_.bytes());
  std::uint64_t offset = 0;
  for (std::size_t i = first_tensor; i < first_tensor + tensor_count; ++i) {
    const GgufTensor& tensor = tensors_[i];
    out.string(tensor.name).number(shapes_[i].dimensions);
    for (std::uint32_t d = 0; d < shapes_[i].dimensions; ++d) out.number(tensor.ne[d]);
    out.number(tensor.type).number(offset);
    offset = round_up(offset + tensor.bytes, alignment);
  }
  return out.pad(alignment).take();
}

Result<std::vector<std::string>> write_gguf(const GgufPlan& plan, const GgufShardLimit& limit, const std::string& path,
                                            const OpenSink& open, const FillTensor& fill) {
  const std::vector<Shard> shards = cut(plan, limit);
  const std::string prefix = path.ends_with(".gguf") ? path.substr(0, path.size() - 5) : path;
  std::vector<std::string> paths;
  for (std::size_t i = 0; i < shards.size(); ++i) {
    paths.push_back(shards.size() == 1 ? path : shard_path(prefix, i, shards.size()));
    auto sink = open(paths.back());
    if (!sink) return fail(std::move(sink.error()));
    const auto header = plan.header(shards[i].first, shards[i].count, i, shards.size());
    if (auto wrote = (*sink)->write(header); !wrote) return fail(std::move(wrote.error()));
    if (auto wrote = write_data(plan, shards[i], **sink, fill); !wrote) return fail(std::move(wrote.error()));
  }
  return paths;
}

}  // namespace artesian
