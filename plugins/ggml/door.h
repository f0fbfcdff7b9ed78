// One model behind the door: its plan, and once its weights are bound, the arena, device and loader that serve them.
// Doors live as long as the process: the engine makes and frees a model several times before the real one.
//
// Threads: everything but find_door() wants `mutex` held; find_door() takes the list's own lock. Doors that share the
// user's budget are divided anew when one opens or closes: whoever does that holds its own mutex, and of another only
// what it gets without waiting.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>

#include "abi.h"
#include "platform/clock.h"
#include "platform/file.h"
#include "platform/memory_limit.h"
#include "platform/shared_mapping.h"
#include "policy/budget_share.h"
#include "policy/governor.h"
#include "settings.h"
#include "stream/dense.h"
#include "stream/experts.h"
#include "stream/file_source.h"
#include "stream/routers.h"
#include "stream/stats_file.h"

namespace artesian::ggml {

// The file that is mapped at an address.
struct MappedFile {
  std::string path;
  std::uint64_t offset = 0;            // of that address in the file
  std::span<const std::byte> mapping;  // all of it
  std::uint64_t mapping_offset = 0;    // of its first byte in the file
};

// What a weight tensor of the engine's is to us; hangs on tensor->extra.
struct Binding {
  class Door* door = nullptr;
  bool expert = false;
  std::size_t layer = 0, part = 0;  // of an expert matrix
  std::uint32_t tensor = 0;         // index into the model's tensors
};

class Door {
 public:
  Door(GgufModel model, WeightPlan plan, const Settings& settings, const std::string& engine);

  bool active() const { return plan_.active; }
  // The budget that was asked for is too small: then the model shall not be loaded at all.
  void refuse();
  bool refused() const { return refused_; }
  const GgufModel& model() const { return model_; }
  // Is the file at `path` one of this model's, and still the one that was planned for?
  bool owns(const std::string& path) const;
  // Does the plan take this tensor? Its binding, which lives as long as the door.
  Binding* find(std::string_view tensor_name);

  // The engine has mapped one of the files: what it keeps is read now and stays, of the rest no page comes unasked.
  void advise(const MappedFile& mapped) const;

  // Opens device and arena; before the first use of experts() and dense(). Code::corrupt if one of the files is not
  // what the plan was made for any more: looked at when opened, and then every now and then.
  artesian::Status open();
  // The engine's buffers that hold weights of this door: when the last one goes, device and arena go, too.
  void enter();
  void leave();
  ExpertStore& experts() { return *experts_; }
  DenseStream& dense() { return *dense_; }
  Loader& loader() { return *loader_; }
  RouterGuess& routers() { return routers_; }
  const Clock& clock() const { return clock_; }

  // Before nodes of so many tokens are run: follows the memory that there is, and gives back what has become too much.
  // A batch larger than any before will make the engine fill buffers that it has had and not used.
  void govern(std::uint64_t tokens);

  // A node over these weights, with so many tokens, is about to run. A pass begins with the weights that came first.
  void count_node(const Binding& binding, std::uint64_t tokens);
  void count_compute(Nanos time) { snapshot_.compute_ns += static_cast<std::uint64_t>(time.count()); }
  void publish(bool now);

  // What this model takes of the user's budget: at least, and at most. Nothing where the engine has it no more.
  BudgetClaim claim() const;
  void set_share(std::uint64_t bytes) { share_ = bytes; }  // of that budget; any thread
  // Memory above the target goes back.
  void give_back();
  // Among all that live on it now; called when this one opens, closes, or is there beside the others.
  void divide_budget();

  std::mutex mutex;

 private:
  artesian::Status check_files();
  void close();
  bool may_commit(std::uint64_t bytes);
  void read_memory();
  void shrink();
  std::uint64_t engine_will_take(Nanos now, std::uint64_t others);
  std::uint64_t piece_bytes() const;
  void register_next();
  void unregister_all();
  void gather();
  void settle();

  GgufModel model_;
  WeightPlan plan_;
  bool refused_ = false;
  std::string eviction_;
  std::vector<std::string> identities_;  // of the shards, when they were planned for
  std::vector<File> files_;              // the shards while the device is open, and what they were then
  std::vector<std::string> opened_;
  Nanos files_checked_{0};
  std::string changed_;  // a shard that is not what it was
  std::uint32_t buffers_ = 0;
  std::vector<Binding> bindings_;  // by tensor; door is null where the plan leaves it to the engine
  SteadyClock clock_;
  MemoryWatch memory_;
  Nanos memory_read_{0};
  Governor governor_;
  std::optional<std::uint64_t> budget_;  // the user's, for all doors of the process
  // What this one has of it, with what the engine keeps and our bookkeeping: all, until it is divided.
  std::atomic<std::uint64_t> share_{~std::uint64_t{0}};
  std::uint64_t target_ = 0;  // bytes that we may hold
  // What the engine had allocated and not touched when that was last looked at, and all but ours was then.
  std::uint64_t untouched_ = 0, others_then_ = 0;
  Nanos untouched_read_{0};
  Arena arena_;
  std::vector<bool> registered_;  // by piece of the arena: known to the device
  bool may_register_ = true;      // false once the device has refused
  Nanos register_looked_{0};
  std::unique_ptr<artesian::Device> device_;
  std::optional<Loader> loader_;
  std::unique_ptr<ExpertStore> experts_;
  std::unique_ptr<DenseStream> dense_;
  RouterGuess routers_;
  std::optional<SharedMapping> stats_file_;
  std::span<std::byte> stats_;  // our region of it
  StatsSnapshot snapshot_;
  StatsSnapshot earlier_;                          // of the times that the door was open before
  const Binding* first_ = nullptr;                 // whose node opens a pass
  std::uint64_t passes_ = 0, cautious_until_ = 0;  // passes begun; from which one on buffers are as full as they get
  std::uint64_t tokens_max_ = 0;                   // of a pass so far
  bool single_ = false;                            // the pass under way is of one token
  DecodeStats settled_;                            // the totals as they were at the last settle()
  Nanos published_{0};
};

// The door of the GGUF file at `path` (any shard), planned at the first call and anew when another file lies there;
// nullptr where the file is not a model we can read.
Door* find_door(const std::string& path, const Settings& settings, const std::string& engine);

// Are weights of a model without experts bound to a door now?
bool dense_door_at_work();

// The last figures of every door, for whoever reads them after the program has ended.
void publish_doors();

// The GGUF files that the engine has open: while it loads, its model. Ours are close-on-exec, the engine's are not.
std::vector<std::string> open_gguf_files();

// Which file lies at a path now: device, inode, size and time of the last change; empty if none does.
std::string file_identity(const std::string& path);
std::string file_identity(int fd);

std::optional<MappedFile> find_mapping(const void* address);
bool is_mapped(const std::string& path);

}  // namespace artesian::ggml
