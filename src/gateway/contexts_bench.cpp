// A context put together from a store on the disk: 7,800 tokens of a model like SmolLM2-135M, 180 MB. The store is on
// the drive of the working folder, the slot file in /dev/shm.
#include <benchmark/benchmark.h>

#include <filesystem>
#include <numeric>

#include "gateway/contexts.h"
#include "platform/process.h"
#include "platform/shared_mapping.h"
#include "platform/thread_executor.h"
#include "store/store_files.h"

namespace artesian {
namespace {

constexpr std::size_t tokens_kept = 7800;

SlotLayout layout_of_smollm() {
  const std::vector<SlotArray> arrays(30, SlotArray{.type = 1, .row_bytes = 384});
  return {.keys = arrays, .values = arrays};
}

void restore(benchmark::State& state) {
  const std::string path = fmt::format("contexts-bench-{}.store", own_pid());
  const std::string file = fmt::format("/dev/shm/contexts-bench-{}.slot", own_pid());
  StoreFilesOptions options;
  options.paths = {{.path = path, .bytes = 512 * MiB}};
  options.geometry.block_bytes_max = block_bytes_aim;
  auto worker = ThreadExecutor::open(2);
  std::vector<Token> tokens(tokens_kept);
  std::iota(tokens.begin(), tokens.end(), 0);
  {
    std::vector<std::byte> bytes(slot_file_bytes(layout_of_smollm(), 1, tokens.size()), std::byte{7});
    const SlotFile slot = write_slot_file(layout_of_smollm(), 1, tokens, bytes);
    if (!create_store(options, true)) return state.SkipWithError("no store");
    auto store = open_store(options);
    if (!store) return state.SkipWithError("no store");
    auto contexts = Contexts::open(**store, {.model = "m", .weights = "w", .dtype = "f16"}, layout_of_smollm(), "");
    const auto root = tenant_root("");
    if (!contexts || !(*contexts)->keep(*root, slot, bytes, UINT64_MAX)) return state.SkipWithError("not kept");
    for (auto _ : state) {
      const auto restored = (*contexts)->restore(*root, tokens, 1, file, UINT64_MAX, **worker);
      if (!restored || restored->tokens != tokens.size()) return state.SkipWithError("not restored");
      state.PauseTiming();
      static_cast<void>(remove_file(file));
      state.ResumeTiming();
    }
    state.SetBytesProcessed(static_cast<std::int64_t>(state.iterations() * bytes.size()));
    worker->reset();
  }
  static_cast<void>(remove_file(path));
}
BENCHMARK(restore)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace artesian
