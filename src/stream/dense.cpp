#include "stream/dense.h"

#include <cstring>

#include "base/units.h"

namespace artesian {

DenseStream::DenseStream(const GgufModel& model, const WeightPlan& plan, Arena& arena, Loader& loader,
                         std::function<bool(std::uint64_t bytes)> may_commit)
    : model_(model), plan_(plan), arena_(arena), loader_(loader), may_commit_(std::move(may_commit)) {
  std::vector<std::uint32_t> streamed;
  for (const DensePlanEntry& entry : plan.dense) {
    if (entry.pinned) {
      pinned_.emplace(entry.tensor, std::make_unique<Pinned>(Pinned{.base = entry.base}));
    } else {
      streamed.push_back(entry.tensor);
    }
  }
  for (std::size_t i = 0; i < streamed.size(); ++i) next_[streamed[i]] = streamed[(i + 1) % streamed.size()];
}

std::byte* DenseStream::place(std::uint32_t tensor, std::uint64_t base) const {
  return arena_.data() + base + model_.tensors[tensor].offset % slab_page;
}

void DenseStream::start(Load& load, std::uint32_t tensor, std::uint64_t base, Loader::Urgency urgency) {
  const GgufTensor& facts = model_.tensors[tensor];
  loader_.start(load,
                {.file = facts.file, .offset = facts.offset, .bytes = facts.bytes, .destination = place(tensor, base)},
                urgency);
}

DenseStream::Entry* DenseStream::find(std::uint32_t tensor) {
  for (auto& entry : ring_) {
    if (entry->tensor == tensor && !entry->consumed) return entry.get();
  }
  return nullptr;
}

// A contiguous piece of the ring behind the newest entry, or none.
DenseStream::Entry* DenseStream::push(std::uint32_t tensor, Loader::Urgency urgency) {
  const std::uint64_t bytes = padded_bytes(model_.tensors[tensor]);
  std::uint64_t at = 0;
  if (!ring_.empty()) {
    const std::uint64_t oldest = ring_.front()->at, newest = ring_.back()->end;
    const bool wrapped = ring_.back()->at < oldest;
    at = newest;
    if (!wrapped && at + bytes > plan_.ring_bytes) at = 0;
    const bool before_oldest = wrapped || at == 0;
    if (before_oldest && at + bytes > oldest) return nullptr;
  }
  if (at + bytes > plan_.ring_bytes) return nullptr;
  ring_.push_back(std::make_unique<Entry>(Entry{.tensor = tensor, .at = at, .end = at + bytes}));
  arena_.commit(plan_.ring_base + at, bytes);
  start(ring_.back()->load, tensor, plan_.ring_base + at, urgency);
  return ring_.back().get();
}

// Gives up what was read ahead, oldest first, until the tensor can be read.
void DenseStream::make_room(std::uint32_t tensor) {
  while (push(tensor, Loader::Urgency::needed) == nullptr && !ring_.empty()) {
    while (ring_.front()->load.pending > 0) loader_.wait();
    ring_.pop_front();
  }
}

void DenseStream::read_ahead() {
  std::uint32_t tensor = ring_.empty() ? last_used_ : ring_.back()->tensor;
  for (std::size_t i = 0; i < next_.size(); ++i) {
    const auto following = next_.find(tensor);
    if (following == next_.end()) return;
    tensor = following->second;
    if (const auto pin = pinned_.find(tensor); pin != pinned_.end() && pin->second->started) continue;
    if (find(tensor) != nullptr) return;  // the ring holds a whole cycle
    if (push(tensor, Loader::Urgency::expected) == nullptr) return;
  }
}

bool DenseStream::commit(std::uint32_t tensor, const Pinned& entry) {
  const std::uint64_t bytes = padded_bytes(model_.tensors[tensor]);
  const std::uint64_t cost = arena_.commit_cost(entry.base, bytes);
  if (cost > 0 && may_commit_ && !may_commit_(cost) && may_stream(plan_, bytes)) return false;
  arena_.commit(entry.base, bytes);
  return true;
}

// The entry of a tensor that is pinned, now or from now on; nullptr if it is to be streamed this time.
DenseStream::Pinned* DenseStream::pinned(std::uint32_t tensor) {
  const auto found = pinned_.find(tensor);
  if (found == pinned_.end()) return nullptr;
  Pinned& entry = *found->second;
  if (entry.started) return &entry;
  return find(tensor) == nullptr && commit(tensor, entry) ? &entry : nullptr;
}

// One that was streamed while there was no memory for it, and now there is.
void DenseStream::pin_from_ring(std::uint32_t tensor, const Entry& entry) {
  const auto found = pinned_.find(tensor);
  if (found == pinned_.end() || found->second->started || !commit(tensor, *found->second)) return;
  std::memcpy(place(tensor, found->second->base), place(tensor, plan_.ring_base + entry.at),
              model_.tensors[tensor].bytes);
  found->second->started = true;
  found->second->load = {};
}

Result<std::byte*> DenseStream::acquire_pinned(std::uint32_t tensor, Pinned& pinned) {
  const bool there = pinned.started && pinned.load.ready();
  ++(there ? counters_.hits : counters_.misses);
  if (there) return place(tensor, pinned.base);
  if (!pinned.started || pinned.load.failed) start(pinned.load, tensor, pinned.base, Loader::Urgency::needed);
  pinned.started = true;
  if (auto arrived = loader_.finish(pinned.load); !arrived) return fail(std::move(arrived.error()));
  return place(tensor, pinned.base);
}

bool DenseStream::at_hand(std::uint32_t tensor) {
  if (const auto pin = pinned_.find(tensor); pin != pinned_.end() && pin->second->started) {
    return pin->second->load.ready();
  }
  const Entry* entry = find(tensor);
  if (entry == nullptr || !entry->load.ready()) return false;
  std::uint64_t bytes = entry->end - entry->at;
  for (const auto& other : ring_) bytes += other->acquired && !other->consumed ? other->end - other->at : 0;
  return bytes <= plan_.ring_bytes / 4;
}

Result<std::byte*> DenseStream::acquire(std::uint32_t tensor) {
  if (Pinned* const entry = pinned(tensor); entry != nullptr) return acquire_pinned(tensor, *entry);
  if (last_used_ != ~0U) next_[last_used_] = tensor;
  last_used_ = tensor;
  if (find(tensor) == nullptr) make_room(tensor);
  Entry* entry = find(tensor);
  if (entry == nullptr) {
    return fail(Code::rejected, "{}: {} does not fit the ring of {}", model_.tensors[tensor].name,
                format_bytes(padded_bytes(model_.tensors[tensor])), format_bytes(plan_.ring_bytes));
  }
  read_ahead();
  ++(entry->load.ready() ? counters_.hits : counters_.misses);
  if (auto arrived = loader_.finish(entry->load); !arrived) {
    entry->consumed = true;
    return fail(std::move(arrived.error()));
  }
  entry->acquired = true;
  pin_from_ring(tensor, *entry);
  return place(tensor, plan_.ring_base + entry->at);
}

void DenseStream::release(std::uint32_t tensor) {
  if (Entry* entry = find(tensor); entry != nullptr) entry->consumed = true;
  while (!ring_.empty() && ring_.front()->consumed && ring_.front()->load.pending == 0) ring_.pop_front();
  read_ahead();
}

std::uint64_t DenseStream::pinned_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& [tensor, entry] : pinned_) bytes += entry->started ? model_.tensors[tensor].bytes : 0;
  return bytes;
}

std::uint64_t DenseStream::shrink(std::uint64_t bytes) {
  std::uint64_t freed = 0;
  for (auto& [tensor, entry] : pinned_) {
    if (freed >= bytes) break;
    if (!entry->started || entry->load.pending > 0 || !may_stream(plan_, padded_bytes(model_.tensors[tensor])))
      continue;
    freed += arena_.release(entry->base, padded_bytes(model_.tensors[tensor]));
    entry->started = false;
  }
  return freed;
}

}  // namespace artesian
