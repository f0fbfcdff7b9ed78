#include "door.h"

#include <unistd.h>
#include <algorithm>
#include <cstdio>
#include <list>
#include <set>

#include "base/units.h"
#include "device/file_device.h"
#include "platform/page_advice.h"
#include "platform/process.h"
#include "platform/untouched_memory.h"

namespace artesian::ggml {
namespace {

constexpr Nanos memory_interval = std::chrono::milliseconds(20);
constexpr Nanos untouched_interval = std::chrono::seconds(2);
constexpr std::uint64_t registered_bytes_min = 64 * MiB;  // a piece that is registered at once,
constexpr std::uint64_t registered_pieces_max = 128;      // and how many there are
constexpr Nanos publish_interval = std::chrono::milliseconds(200);
constexpr std::uint64_t large_pages_bytes_min = 64 * MiB;  // a smaller arena would be taken by a few of them
constexpr Nanos files_interval = std::chrono::milliseconds(100);

std::atomic<int> dense_doors{0};  // that hold weights, and no experts

void say(const std::string& sentence) {
  std::fprintf(stderr, "artesian: %s\n", sentence.c_str());
}

}  // namespace

Door::Door(GgufModel model, WeightPlan plan, const Settings& settings, const std::string& engine)
    : model_(std::move(model)),
      plan_(std::move(plan)),
      eviction_(settings.eviction),
      governor_({.budget_bytes = plan_.arena_bytes, .useful_bytes = plan_.arena_bytes}),
      budget_(settings.memory_bytes) {
  for (const std::string& path : model_.paths) identities_.push_back(file_identity(path));
  bindings_.resize(model_.tensors.size());
  if (plan_.active) {
    for (std::size_t layer = 0; layer < plan_.layers.size(); ++layer) {
      for (std::size_t part = 0; part < plan_.layers[layer].parts.size(); ++part) {
        const std::uint32_t tensor = plan_.layers[layer].parts[part].tensor;
        bindings_[tensor] = {.door = this, .expert = true, .layer = layer, .part = part, .tensor = tensor};
      }
    }
    for (const DensePlanEntry& entry : plan_.dense) bindings_[entry.tensor] = {.door = this, .tensor = entry.tensor};
  }
  snapshot_.pid = static_cast<int>(getpid());
  snapshot_.state = plan_.active ? "loading" : "aside";
  snapshot_.reason = plan_.reason;
  snapshot_.model = model_.paths.at(0);
  snapshot_.engine = "ggml " + engine;
  snapshot_.budget_bytes = plan_.arena_bytes;
  if (!settings.stats_path.empty()) {
    if (auto file = SharedMapping::open(settings.stats_path, stats_file_bytes)) stats_file_ = std::move(*file);
    if (stats_file_) stats_ = claim_stats_region(stats_file_->bytes(), snapshot_.pid, process_exists);
  }
  publish(true);
}

void Door::refuse() {
  refused_ = true;
  snapshot_.state = "refused";
  publish(true);
}

bool Door::owns(const std::string& path) const {
  const auto found = std::ranges::find(model_.paths, path);
  if (found == model_.paths.end()) return false;
  const std::string& planned = identities_[static_cast<std::size_t>(found - model_.paths.begin())];
  return !planned.empty() && planned == file_identity(path);
}

Binding* Door::find(std::string_view tensor_name) {
  const GgufTensor* tensor = model_.find(tensor_name);
  if (tensor == nullptr) return nullptr;
  Binding& binding = bindings_[static_cast<std::size_t>(tensor - model_.tensors.data())];
  return binding.door != nullptr ? &binding : nullptr;
}

void Door::advise(const MappedFile& mapped) const {
  advise_random(mapped.mapping);
  std::vector<std::span<const std::byte>> kept;
  for (const std::uint32_t index : plan_.kept) {
    const GgufTensor& tensor = model_.tensors[index];
    if (model_.paths[tensor.file] != mapped.path || tensor.offset < mapped.mapping_offset) continue;
    const std::uint64_t at = tensor.offset - mapped.mapping_offset;
    if (at + tensor.bytes > mapped.mapping.size()) continue;
    kept.push_back(mapped.mapping.subspan(at, tensor.bytes));
    advise_soon(kept.back());
  }
  // Small ones first, as far as the limit for locked memory goes: they are what every node touches.
  std::ranges::sort(kept, {}, [](std::span<const std::byte> memory) { return memory.size(); });
  std::ranges::find_if_not(kept, keep_resident);
}

artesian::Status Door::check_files() {
  const Nanos now = clock_.now();
  if (changed_.empty() && now - files_checked_ >= files_interval) {
    files_checked_ = now;
    for (std::size_t i = 0; i < files_.size(); ++i) {
      if (file_identity(files_[i].fd()) != opened_[i]) changed_ = files_[i].path();
    }
  }
  if (changed_.empty()) return {};
  return fail(Code::corrupt, "{}: the file was changed while it is in use; load the model again", changed_);
}

artesian::Status Door::open() {
  if (device_ != nullptr) return check_files();
  auto device = open_file_device({.paths = model_.paths,
                                  .queue_depth_max = 64,
                                  .merge_bytes = Loader::request_bytes,
                                  .report = [](std::string_view what) { say(std::string(what)); }},
                                 clock_);
  if (!device) return fail(std::move(device.error()));
  files_.clear();
  opened_.clear();
  for (std::size_t i = 0; i < model_.paths.size(); ++i) {
    auto file = File::open(model_.paths[i], {});
    if (!file) return fail(std::move(file.error()));
    opened_.push_back(file_identity(file->fd()));
    files_.push_back(std::move(*file));
    if (file_identity(model_.paths[i]) != identities_[i]) {
      return fail(Code::corrupt, "{}: another file lies there than the one that was loaded", model_.paths[i]);
    }
  }
  const bool large = plan_.arena_bytes >= large_pages_bytes_min;
  auto arena = Arena::reserve(plan_.arena_bytes, large ? Arena::Pages::large : Arena::Pages::small);
  if (!arena) return fail(std::move(arena.error()));
  auto loader = Loader::create(**device, clock_);
  if (!loader) return fail(std::move(loader.error()));
  device_ = std::move(*device);
  arena_ = std::move(*arena);
  registered_.assign(arena_.size() / piece_bytes() + 1, false);
  loader_.emplace(std::move(*loader));
  const EvictionInfo* eviction = find_eviction(eviction_);
  if (eviction == nullptr) {
    eviction = &eviction_policies()[0];
    if (!eviction_.empty()) say(fmt::format("no eviction policy is named '{}', taking {}", eviction_, eviction->name));
  }
  const auto may = [this](std::uint64_t bytes) { return may_commit(bytes); };
  experts_ = std::make_unique<ExpertStore>(model_, plan_, arena_, *loader_, *eviction, may);
  dense_ = std::make_unique<DenseStream>(model_, plan_, arena_, *loader_, may);
  routers_ = read_routers(model_, plan_, open_file_source);
  snapshot_.state = "active";
  divide_budget();
  publish(true);
  return {};
}

// The rest of what the engine has allocated: KV cache and compute buffers fill up later than we do.
std::uint64_t Door::engine_will_take(Nanos now, std::uint64_t others) {
  if (untouched_read_ == Nanos{0} || now - untouched_read_ >= untouched_interval) {
    untouched_read_ = now;
    untouched_ = untouched_bytes();
    others_then_ = others;
  }
  const std::uint64_t taken = others > others_then_ ? others - others_then_ : 0;
  return untouched_ > taken ? untouched_ - taken : 0;
}

void Door::enter() {
  const std::lock_guard lock(mutex);
  if (buffers_++ == 0 && plan_.layers.empty()) ++dense_doors;
}

void Door::leave() {
  const std::lock_guard lock(mutex);
  if (--buffers_ > 0) return;
  if (plan_.layers.empty()) --dense_doors;
  if (device_ != nullptr) close();
}

void Door::close() {
  unregister_all();
  publish(true);
  earlier_ = snapshot_;
  experts_.reset();
  dense_.reset();
  loader_.reset();
  device_.reset();
  arena_ = {};
  files_.clear();
  changed_.clear();
  tokens_max_ = 0;  // the next context has buffers of its own
  divide_budget();
}

BudgetClaim Door::claim() const {
  if (!plan_.active) {
    const std::uint64_t mapped = is_mapped(model_.paths.at(0)) ? plan_.engine_bytes : 0;
    return {.least_bytes = mapped, .useful_bytes = mapped};
  }
  const std::uint64_t beside = plan_.engine_bytes + plan_.bookkeeping_bytes;
  return {.least_bytes = beside + plan_.least_arena_bytes, .useful_bytes = beside + plan_.arena_bytes};
}

void Door::read_memory() {
  const Nanos now = clock_.now();
  if (memory_read_ != Nanos{0} && now - memory_read_ < memory_interval) return;
  memory_read_ = now;
  const auto facts = memory_.read();
  if (!facts) return;
  const std::uint64_t committed = arena_.committed();
  const std::uint64_t others = facts->unreclaimable > committed ? facts->unreclaimable - committed : 0;
  const std::uint64_t useful = claim().useful_bytes, less = useful - std::min<std::uint64_t>(useful, share_);
  snapshot_.budget_bytes = plan_.arena_bytes - std::min(plan_.arena_bytes, less);
  governor_.set_budget(snapshot_.budget_bytes);
  // Locked pages are counted among the unreclaimable already.
  const std::uint64_t mapped = plan_.engine_bytes - std::min(plan_.engine_bytes, facts->locked);
  target_ = governor_
                .decide({.now = now,
                         .limit_bytes = facts->limit,
                         .unreclaimable_bytes = facts->unreclaimable,
                         .committed_bytes = committed,
                         .mapped_bytes = mapped,
                         .available_bytes = facts->available,
                         .psi_some_percent = facts->psi_some,
                         .psi_full_percent = facts->psi_full})
                .target_bytes;
  if (passes_ >= cautious_until_) return;
  // The governor's margin is there for what the engine has yet to touch, too.
  const std::uint64_t will_take = engine_will_take(now, others), margin = governor_margin(facts->limit);
  target_ -= std::min(target_, will_take > margin ? will_take - margin : 0);
}

bool Door::may_commit(std::uint64_t bytes) {
  read_memory();
  return arena_.committed() + bytes <= target_;
}

void Door::govern(std::uint64_t tokens) {
  if (tokens > tokens_max_) {
    tokens_max_ = tokens;
    cautious_until_ = passes_ + 2;  // this pass and what ends it
    memory_read_ = Nanos{0};
  }
  read_memory();
  if (arena_.committed() <= target_) return register_next();
  shrink();
}

void Door::give_back() {
  if (device_ == nullptr) return;
  memory_read_ = Nanos{0};
  read_memory();
  if (arena_.committed() > target_) shrink();
}

// To the target.
void Door::shrink() {
  unregister_all();
  const std::uint64_t excess = arena_.committed() - target_;
  const std::uint64_t given = experts_->shrink(excess);
  if (given < excess) dense_->shrink(excess - given);
}

std::uint64_t Door::piece_bytes() const {
  return std::max(registered_bytes_min, align_up(arena_.size() / registered_pieces_max, 2 * MiB));
}

// Memory that is in use as a whole is told to the device, a piece at a time: reads into it cost the kernel less.
void Door::register_next() {
  const Nanos now = clock_.now();
  if (now - register_looked_ < memory_interval) return;  // a graph has dozens of pieces, a large arena many to look at
  register_looked_ = now;
  const std::uint64_t piece = piece_bytes();
  for (std::uint64_t at = 0; may_register_ && at < arena_.size(); at += piece) {
    const std::uint64_t bytes = std::min(piece, arena_.size() - at);
    if (registered_[at / piece] || arena_.commit_cost(at, bytes) > 0) continue;
    may_register_ = device_->register_memory(arena_.span().subspan(at, bytes));
    registered_[at / piece] = may_register_;
    return;
  }
}

// Before any of it is given back.
void Door::unregister_all() {
  loader_->drain();
  const std::uint64_t piece = piece_bytes();
  for (std::size_t i = 0; i < registered_.size(); ++i) {
    if (!registered_[i]) continue;
    const std::uint64_t at = i * piece;
    device_->unregister_memory(arena_.span().subspan(at, std::min(piece, arena_.size() - at)));
    registered_[i] = false;
  }
}

void Door::count_node(const Binding& binding, std::uint64_t tokens) {
  if (first_ == nullptr) first_ = &binding;
  if (first_ != &binding) return;
  settle();
  ++passes_;
  single_ = tokens == 1;
  snapshot_.tokens += tokens;
}

// Totals of the parts, into the snapshot.
void Door::gather() {
  snapshot_.hits = earlier_.hits + dense_->counters().hits;
  snapshot_.misses = earlier_.misses + dense_->counters().misses;
  snapshot_.committed_bytes = arena_.committed();
  snapshot_.resident_bytes = dense_->pinned_bytes();
  snapshot_.layers.clear();
  for (std::size_t layer = 0; layer < experts_->layer_count(); ++layer) {
    const ExpertCounters counters = experts_->counters(layer);
    const ExpertLayerPlan& plan = experts_->layer_plan(layer);
    const std::uint64_t bytes = counters.resident * plan.slot_bytes;
    snapshot_.layers.push_back({.layer = plan.layer,
                                .slots = plan.slots,
                                .resident = counters.resident,
                                .resident_bytes = bytes,
                                .hits = counters.hits,
                                .misses = counters.misses});
    snapshot_.hits += counters.hits;
    snapshot_.misses += counters.misses;
    snapshot_.resident_bytes += bytes;
  }
  const SpeculationCounts guesses = experts_->speculation().total();
  snapshot_.speculation = {.issued = earlier_.speculation.issued + guesses.guesses,
                           .useful = earlier_.speculation.useful + guesses.useful,
                           .late = earlier_.speculation.late + guesses.late};
  snapshot_.bytes_wasted = earlier_.bytes_wasted + guesses.wasted_bytes;
  const DeviceCounters io = device_->counters();
  snapshot_.bytes_read = earlier_.bytes_read + io.bytes_read;
  snapshot_.read_busy_ns = earlier_.read_busy_ns + static_cast<std::uint64_t>(io.busy.count());
  snapshot_.queue_depth = io.in_flight;
  snapshot_.stall_ns = earlier_.stall_ns + static_cast<std::uint64_t>(loader_->counters().stalled.count());
}

// What the totals have grown by since the last time belongs to the pass under way.
void Door::settle() {
  gather();
  const DecodeStats now{.tokens = snapshot_.tokens,
                        .hits = snapshot_.hits,
                        .misses = snapshot_.misses,
                        .bytes_read = snapshot_.bytes_read,
                        .bytes_wasted = snapshot_.bytes_wasted,
                        .stall_ns = snapshot_.stall_ns,
                        .compute_ns = snapshot_.compute_ns};
  if (single_) {
    snapshot_.decode += now;
    snapshot_.decode -= settled_;
  }
  settled_ = now;
}

void Door::publish(bool now) {
  const Nanos time = clock_.now();
  if (stats_.empty() || (!now && time - published_ < publish_interval)) return;
  published_ = time;
  if (experts_ != nullptr) settle();
  StatsWriter(stats_).write(snapshot_);
}

namespace {

// Those that live on the user's budget: the open ones, and those that step aside, whose models may be mapped.
struct SharedBudget {
  std::mutex mutex;
  std::set<Door*> doors;
};

SharedBudget& shared_budget() {
  static SharedBudget shared;
  return shared;
}

}  // namespace

void Door::divide_budget() {
  if (!budget_) return;
  SharedBudget& shared = shared_budget();
  const std::lock_guard lock(shared.mutex);
  if (device_ != nullptr || !plan_.active) {
    shared.doors.insert(this);
  } else {
    shared.doors.erase(this);
  }
  std::vector<BudgetClaim> claims;
  std::uint64_t least = 0;
  for (const Door* door : shared.doors) {
    claims.push_back(door->claim());
    least += claims.back().least_bytes;
  }
  if (least > *budget_ && device_ != nullptr) {
    say(fmt::format("{}: with the other models of this program it needs {} at least, and takes more than the {} it may",
                    model_.paths.at(0), format_size(least), format_size(*budget_)));
  }
  const auto shares = share_budget(*budget_, claims);
  auto share = shares.begin();
  for (Door* door : shared.doors) {
    door->set_share(*share++);
    if (door == this) continue;
    // One that is busy does it at its next batch.
    if (const std::unique_lock other(door->mutex, std::try_to_lock); other) door->give_back();
  }
}

namespace {

struct DoorList {
  std::mutex mutex;
  std::list<std::unique_ptr<Door>> doors;
  std::set<std::pair<std::string, std::string>> refused;  // path and identity of files that are no models
};

DoorList& door_list() {
  static DoorList list;
  return list;
}

std::unique_ptr<Door> plan_door(const std::string& path, const Settings& settings, const std::string& engine) {
  std::string first = path;
  if (auto source = open_file_source(path)) {
    if (const auto file = GgufFile::parse(**source)) {
      if (file->find_string("general.type").value_or("model") != "model") return nullptr;  // an adapter, say
      const std::uint64_t count = file->find_uint("split.count").value_or(1);
      const std::uint64_t number = file->find_uint("split.no").value_or(0);
      if (const auto prefix = shard_prefix(path, number, count); prefix && count > 1)
        first = shard_path(*prefix, 0, count);
    }
  }
  auto model = open_model_files(first);
  if (!model) return nullptr;  // the engine says what is wrong with the file, better than we could
  std::uint64_t budget = 0;
  if (settings.memory_bytes) {
    budget = *settings.memory_bytes;
  } else if (const auto facts = MemoryWatch().read()) {
    budget = governor_ceiling({}, {.limit_bytes = facts->limit,
                                   .unreclaimable_bytes = facts->unreclaimable,
                                   .available_bytes = facts->available});
  }
  auto plan = make_plan(*model, {.mode = settings.mode, .budget_bytes = budget});
  const bool refused = !plan && settings.memory_bytes;
  if (!plan) {
    say(fmt::format("{}; {}", plan.error().message,
                    refused ? "the model is not loaded" : "the engine runs without the door"));
    plan = WeightPlan{};
  }
  auto door = std::make_unique<Door>(std::move(*model), std::move(*plan), settings, engine);
  if (refused) door->refuse();
  return door;
}

}  // namespace

Door* find_door(const std::string& path, const Settings& settings, const std::string& engine) {
  DoorList& list = door_list();
  const std::lock_guard lock(list.mutex);
  for (const auto& door : list.doors) {
    if (door->owns(path)) return door.get();
  }
  const std::pair file(path, file_identity(path));
  if (list.refused.contains(file)) return nullptr;
  auto door = plan_door(path, settings, engine);
  if (door == nullptr || !door->owns(path)) {
    list.refused.insert(file);
    return nullptr;
  }
  list.doors.push_back(std::move(door));
  if (!list.doors.back()->active()) list.doors.back()->divide_budget();
  return list.doors.back().get();
}

bool dense_door_at_work() {
  return dense_doors > 0;
}

void publish_doors() {
  DoorList& list = door_list();
  const std::lock_guard lock(list.mutex);
  for (const auto& door : list.doors) {
    if (!door->active()) continue;
    const std::lock_guard door_lock(door->mutex);
    door->publish(true);
  }
}

}  // namespace artesian::ggml
