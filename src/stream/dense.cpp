#include "stream/dense.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/units.h"

namespace artesian {
namespace {

// The order in which llama.cpp's graphs use a layer's matrices.
int rank_in_layer(std::string_view name) {
  constexpr std::array<std::string_view, 9> order = {"attn_qkv", "attn_q",   "attn_k",   "attn_v", "attn_output",
                                                     "ffn_up",   "ffn_gate", "ffn_down", "output"};
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (name.find(order[i]) != std::string_view::npos) return static_cast<int>(i);
  }
  return static_cast<int>(order.size());
}

}  // namespace

DenseStream::DenseStream(const GgufModel& model, const WeightPlan& plan, Arena& arena, Loader& loader)
    : model_(model), plan_(plan), arena_(arena), loader_(loader) {
  std::vector<std::uint32_t> streamed;
  for (const DensePlanEntry& entry : plan.dense) {
    if (entry.pinned) {
      pinned_.emplace(entry.tensor, std::make_unique<Pinned>(Pinned{.base = entry.base}));
    } else {
      streamed.push_back(entry.tensor);
    }
  }
  std::ranges::stable_sort(streamed, {}, [&](std::uint32_t tensor) {
    const std::string& name = model_.tensors[tensor].name;
    return std::pair(classify(name).layer.value_or(~0U), rank_in_layer(name));
  });
  for (std::size_t i = 0; i < streamed.size(); ++i) next_[streamed[i]] = streamed[(i + 1) % streamed.size()];
}

std::uint64_t DenseStream::padded(std::uint32_t tensor) const {
  return align_up(model_.tensors[tensor].bytes, slab_page) + 2 * slab_page;
}

std::byte* DenseStream::place(std::uint32_t tensor, std::uint64_t base) const {
  return arena_.data() + base + model_.tensors[tensor].offset % slab_page;
}

void DenseStream::start(Load& load, std::uint32_t tensor, std::uint64_t base, IoClass io_class) {
  const GgufTensor& facts = model_.tensors[tensor];
  loader_.start(load,
                {.file = facts.file, .offset = facts.offset, .bytes = facts.bytes, .destination = place(tensor, base)},
                io_class);
}

DenseStream::Entry* DenseStream::find(std::uint32_t tensor) {
  for (auto& entry : ring_) {
    if (entry->tensor == tensor && !entry->consumed) return entry.get();
  }
  return nullptr;
}

// A contiguous piece of the ring behind the newest entry, or none.
DenseStream::Entry* DenseStream::push(std::uint32_t tensor, IoClass io_class) {
  const std::uint64_t bytes = padded(tensor);
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
  if (at + bytes > ring_high_) {
    committed_ += at + bytes - ring_high_;
    ring_high_ = at + bytes;
  }
  start(ring_.back()->load, tensor, plan_.ring_base + at, io_class);
  return ring_.back().get();
}

// Gives up what was read ahead, oldest first, until the tensor can be read.
void DenseStream::make_room(std::uint32_t tensor) {
  while (push(tensor, IoClass::demand) == nullptr && !ring_.empty()) {
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
    if (find(tensor) != nullptr) return;  // the ring holds a whole cycle
    if (push(tensor, IoClass::staged) == nullptr) return;
  }
}

Result<std::byte*> DenseStream::acquire(std::uint32_t tensor) {
  if (const auto found = pinned_.find(tensor); found != pinned_.end()) {
    Pinned& pinned = *found->second;
    const bool there = pinned.started && pinned.load.ready();
    ++(there ? counters_.hits : counters_.misses);
    if (there) return place(tensor, pinned.base);
    if (!pinned.started || pinned.load.failed) {
      if (!pinned.started) committed_ += padded(tensor);
      pinned.started = true;
      start(pinned.load, tensor, pinned.base, IoClass::demand);
    }
    if (auto arrived = loader_.finish(pinned.load); !arrived) return fail(std::move(arrived.error()));
    return place(tensor, pinned.base);
  }
  if (last_used_ != ~0U) next_[last_used_] = tensor;
  last_used_ = tensor;
  if (find(tensor) == nullptr) make_room(tensor);
  Entry* entry = find(tensor);
  if (entry == nullptr) {
    return fail(Code::rejected, "{}: {} does not fit the ring of {}", model_.tensors[tensor].name,
                format_bytes(padded(tensor)), format_bytes(plan_.ring_bytes));
  }
  read_ahead();
  ++(entry->load.ready() ? counters_.hits : counters_.misses);
  if (auto arrived = loader_.finish(entry->load); !arrived) {
    entry->consumed = true;
    return fail(std::move(arrived.error()));
  }
  return place(tensor, plan_.ring_base + entry->at);
}

void DenseStream::release(std::uint32_t tensor) {
  if (Entry* entry = find(tensor); entry != nullptr) entry->consumed = true;
  while (!ring_.empty() && ring_.front()->consumed && ring_.front()->load.pending == 0) ring_.pop_front();
  read_ahead();
}

}  // namespace artesian
