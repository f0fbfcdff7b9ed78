// Writes a small mixture of experts with no tokenizer: make_model PATH SHARDS.
#include <cstdlib>
#include <fstream>

#include "format/gguf_writer.h"

namespace {

using namespace artesian;

constexpr std::uint32_t q8_0 = 8;

GgufPlan moe() {
  GgufPlan plan;
  plan.add_string("general.architecture", "qwen3moe");
  plan.add_u32("qwen3moe.block_count", 2);
  plan.add_u32("qwen3moe.embedding_length", 256);
  plan.add_u32("qwen3moe.expert_count", 16);
  plan.add_u32("qwen3moe.expert_used_count", 2);
  plan.add_tensor("token_embd.weight", q8_0, {256, 512});
  for (int layer = 0; layer < 2; ++layer) {
    plan.add_tensor(fmt::format("blk.{}.attn_q.weight", layer), q8_0, {256, 256});
    for (const char* part : {"gate", "up", "down"}) {
      plan.add_tensor(fmt::format("blk.{}.ffn_{}_exps.weight", layer, part), q8_0, {256, 256, 16});
    }
  }
  return plan;
}

class Sink final : public ByteSink {
 public:
  explicit Sink(const std::string& path) : file_(path, std::ios::binary) {}
  Status write(std::span<const std::byte> bytes) override {
    file_.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (!file_) return fail(Code::device_failed, "it cannot be written");
    return {};
  }

 private:
  std::ofstream file_;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  const auto paths = write_gguf(
      moe(), {.shards = std::strtoull(argv[2], nullptr, 10)}, argv[1],
      [](const std::string& path) -> Result<std::unique_ptr<ByteSink>> { return std::make_unique<Sink>(path); },
      [](const GgufTensor& tensor, ByteSink& sink) { return sink.write(std::vector<std::byte>(tensor.bytes)); });
  return paths ? 0 : 1;
}
