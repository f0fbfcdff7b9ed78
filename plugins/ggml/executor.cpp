#include "executor.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>

namespace artesian::ggml {
namespace {

constexpr std::size_t graph_nodes_max = 64;
constexpr std::int64_t few_tokens = 16;             // up to here a node's compute is shorter than what is in flight
constexpr std::size_t guess_tokens_max = 4;         // more tokens want more experts than idle time can bring
constexpr std::size_t gather_bytes_max = 1U << 20;  // rows above this are not gathered while waiting helps

std::int64_t elements(const Tensor* tensor) {
  return tensor->ne[0] * tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
}

void set_contiguous(Tensor& tensor, std::size_t element_bytes) {
  tensor.nb[0] = element_bytes;
  for (int i = 1; i < dims_max; ++i) tensor.nb[i] = tensor.nb[i - 1] * static_cast<std::size_t>(tensor.ne[i - 1]);
}

// A weight as the CPU backend shall see it: our mark in `extra` would keep it from its kernels for K-quant batches.
Tensor unmarked(const Tensor* weights) {
  Tensor copy = *weights;
  copy.extra = nullptr;
  return copy;
}

}  // namespace

Binding* binding_of(const Tensor* weights) {
  const Tensor* whole = weights->view_src != nullptr ? weights->view_src : weights;
  return static_cast<Binding*>(whole->extra);
}

Executor::Executor(const Engine& engine) : engine_(engine) {
  delegate_ = engine.dev_init(engine.cpu_device, nullptr);
  context_ = engine.init({.memory_bytes = 256U << 10, .memory = nullptr, .no_alloc = true});
  graph_ = context_ != nullptr ? engine.new_graph(context_, graph_nodes_max, false) : nullptr;
}

Executor::~Executor() {
  if (context_ != nullptr) engine_.free(context_);
  if (delegate_ != nullptr) engine_.backend_free(delegate_);
}

Status Executor::run(Graph* graph) {
  if (delegate_ == nullptr || graph_ == nullptr) return status_alloc_failed;
  const int count = engine_.graph_size(graph);
  std::unique_lock<std::mutex> lock;
  for (int i = 0; i < count; ++i) {
    Tensor* node = engine_.graph_node(graph, i);
    if (elements(node) == 0 || (node->op != engine_.op_mul_mat && node->op != engine_.op_mul_mat_id)) {
      if (!engine_.op_computes_nothing[static_cast<std::size_t>(node->op)] && elements(node) != 0) add(node);
      continue;
    }
    Binding* binding = node->src[0]->buffer != nullptr ? binding_of(node->src[0]) : nullptr;
    if (binding == nullptr || binding->door == nullptr) {
      add(node);
      continue;
    }
    if (!lock.owns_lock()) lock = std::unique_lock(binding->door->mutex);
    if (timed_ != binding->door) {
      timed_ = binding->door;
      if (auto opened = binding->door->open(); !opened) return refuse(*binding->door, opened.error());
      if (batch_.empty()) binding->door->govern();
    }
    binding->door->loader().set_long_computes(node->src[1]->ne[1] * node->src[1]->ne[2] > few_tokens);
    const bool expert = binding->expert && node->op == engine_.op_mul_mat_id && node->src[0]->view_src == nullptr;
    const Status status = expert ? run_experts(node, *binding) : run_dense(node, *binding);
    if (status != status_success) {
      batch_.clear();
      return status;
    }
  }
  const Status status = flush();
  if (timed_ != nullptr) timed_->publish(false);
  timed_ = nullptr;
  return status;
}

Status Executor::refuse(Door& door, const Error& error) {
  batch_.clear();
  route_.door = nullptr;
  std::fprintf(stderr, "artesian: %s; this batch is given up\n", error.message.c_str());
  door.publish(true);
  return status_failed;
}

Executor::Item& Executor::add(Tensor* node) {
  Item& item = batch_.emplace_back();
  item.node = *node;
  return item;
}

Status Executor::flush() {
  if (batch_.empty()) return status_success;
  Door* door = timed_;
  const Nanos start = door != nullptr ? door->clock().now() : Nanos{0};
  Status status = status_success;
  for (std::size_t first = 0; first < batch_.size() && status == status_success; first += graph_nodes_max) {
    engine_.graph_clear(graph_);
    const std::size_t last = std::min(batch_.size(), first + graph_nodes_max);
    for (std::size_t i = first; i < last; ++i) engine_.graph_add_node(graph_, &batch_[i].node);
    status = engine_.graph_compute(delegate_, graph_);
  }
  batch_.clear();
  if (door != nullptr) door->count_compute(door->clock().now() - start);
  return status;
}

Status Executor::run_dense(Tensor* node, Binding& binding) {
  if (const Status status = flush(); status != status_success) return status;
  Door& door = *binding.door;
  if (binding.expert) {  // an expert tensor used in a way we do not know: as it lies in the mapped file
    Item& item = add(node);
    item.weights = unmarked(node->src[0]);
    item.node.src[0] = &item.weights;
    return flush();
  }
  const auto bytes = door.dense().acquire(binding.tensor);
  if (!bytes) return refuse(door, bytes.error());
  Item& item = add(node);
  item.weights = unmarked(node->src[0]);
  item.weights.data = *bytes + (node->src[0]->view_src != nullptr ? node->src[0]->view_offs : 0);
  item.node.src[0] = &item.weights;
  const Status status = flush();
  door.dense().release(binding.tensor);
  return status;
}

Status Executor::read_ids(const Tensor* node, const Binding& binding, std::vector<ExpertIndex>& ids) {
  const Tensor* source = node->src[2];
  const std::int64_t experts = binding.door->experts().layer_plan(binding.layer).experts;
  ids.clear();
  for (std::int64_t token = 0; token < source->ne[1]; ++token) {
    for (std::int64_t k = 0; k < source->ne[0]; ++k) {
      const auto* at = static_cast<const char*>(source->data) + token * static_cast<std::int64_t>(source->nb[1]) +
                       k * static_cast<std::int64_t>(source->nb[0]);
      std::int32_t id = 0;
      std::memcpy(&id, at, sizeof id);
      if (id < 0 || id >= experts) {
        return refuse(*binding.door,
                      {.code = Code::invalid,
                       .message = fmt::format("{}: expert {} of {} was asked for", node->src[0]->name, id, experts)});
      }
      ids.push_back(static_cast<ExpertIndex>(id));
    }
  }
  return status_success;
}

// One routing decision serves all parts of a layer: the store is told once.
void Executor::route(const Tensor* node, const Binding& binding, std::vector<ExpertIndex> ids) {
  Door& door = *binding.door;
  const ExpertLayerPlan& plan = door.experts().layer_plan(binding.layer);
  if (route_.door == &door && route_.layer == binding.layer && route_.number == door.experts().current_route() &&
      route_.ids == ids && route_.parts_done[binding.part] == 0) {
    return;
  }
  route_.door = &door;
  route_.layer = binding.layer;
  route_.ids = std::move(ids);
  route_.parts_done.assign(plan.parts.size(), 0);
  route_.order.assign(plan.experts, 0);
  route_.experts.clear();
  for (const ExpertIndex id : route_.ids) route_.order[id] = 1;
  for (ExpertIndex expert = 0; expert < plan.experts; ++expert) {
    if (route_.order[expert] == 0) continue;
    route_.order[expert] = static_cast<std::uint32_t>(route_.experts.size());
    route_.experts.push_back(expert);
  }
  const bool many = node->src[2]->ne[1] > 1 && route_.experts.size() * 2 > plan.experts;
  if (binding.layer == 0) door.count_token(static_cast<std::uint64_t>(node->src[2]->ne[1]));
  route_.number = door.experts().route({.layer = binding.layer,
                                        .part = binding.part,
                                        .experts = route_.experts,
                                        .by_token = route_.ids,
                                        .per_token = static_cast<std::size_t>(node->src[2]->ne[0]),
                                        .many = many});
  guess(node, binding);
}

// What the next layer may want, as long as the input of this one is at hand.
void Executor::guess(const Tensor* node, const Binding& binding) {
  route_.guesses.clear();
  const Tensor* input = node->src[1];
  const std::size_t next = binding.layer + 1;
  RouterGuess& routers = binding.door->routers();
  const auto width = static_cast<std::size_t>(input->ne[0]), tokens = static_cast<std::size_t>(input->ne[2]);
  if (input->ne[1] != 1 || tokens > guess_tokens_max || next >= binding.door->experts().layer_count() ||
      !routers.knows(next, width) || !binding.door->experts().may_speculate(next)) {
    return;
  }
  route_.guessed_layer = next;
  const std::size_t used = binding.door->experts().layer_plan(next).used;
  for (std::size_t token = 0; token < tokens; ++token) {
    const auto* values = reinterpret_cast<const float*>(static_cast<const char*>(input->data) + token * input->nb[2]);
    for (const ExpertIndex expert : routers.rank(next, {values, width}, used)) {
      if (std::ranges::find(route_.guesses, expert) == route_.guesses.end()) route_.guesses.push_back(expert);
    }
  }
}

// Once all that this layer needs is asked for: the loader reads it first.
void Executor::speculate(const Binding& binding) {
  if (route_.guesses.empty()) return;
  binding.door->experts().speculate(route_.guessed_layer, route_.guesses);
  route_.guesses.clear();
}

Status Executor::run_experts(Tensor* node, Binding& binding) {
  std::vector<ExpertIndex> ids;
  if (const Status status = read_ids(node, binding, ids); status != status_success) return status;
  if (route_.door != binding.door || route_.layer != binding.layer) {
    if (const Status status = flush(); status != status_success) return status;
  }
  route(node, binding, std::move(ids));
  route_.parts_done[binding.part] = 1;

  ExpertStore& store = binding.door->experts();
  const std::size_t part = binding.part;
  const std::size_t row_bytes = static_cast<std::size_t>(node->ne[0] + node->src[1]->ne[0]) * sizeof(float);
  const bool gather = route_.ids.size() * row_bytes <= gather_bytes_max;
  std::vector<char> done(route_.experts.size(), 0);
  std::size_t left = done.size();
  binding.door->loader().poll();
  while (left > 0) {
    std::size_t ready = 0, requested = 0, failed = 0;
    for (std::size_t i = 0; i < done.size(); ++i) {
      if (done[i] != 0) continue;
      requested += store.request(part, i) ? 1 : 0;
      ready += store.ready(part, i) ? 1 : 0;
      failed += store.failed(part, i) ? 1 : 0;
    }
    if (failed > 0) return refuse(*binding.door, binding.door->loader().last_error());
    if (requested == left) {
      store.read_ahead(part);
      speculate(binding);
    }
    if (ready == done.size()) return run_whole(node, binding);
    const bool wait = ready == 0 || (!gather && requested == left && ready < left);
    if (!wait) {
      if (const Status status = run_ready(node, binding, done, left); status != status_success) return status;
      binding.door->loader().poll();
    } else {
      if (const Status status = flush(); status != status_success) return status;
      binding.door->loader().wait();
    }
  }
  return status_success;
}

void Executor::point_at_slots(Item& item, const Binding& binding, std::uint32_t slots) {
  const ExpertStore& store = binding.door->experts();
  item.weights.data = store.base(binding.layer, binding.part);
  item.weights.ne[2] = slots;
  item.weights.nb[2] = store.stride(binding.layer, binding.part);
  item.weights.nb[3] = item.weights.nb[2] * slots;
  item.node.src[0] = &item.weights;
  item.ids.data = item.id_data.data();
  item.node.src[2] = &item.ids;
}

// Everything is there: the node itself, over slots.
Status Executor::run_whole(Tensor* node, const Binding& binding) {
  ExpertStore& store = binding.door->experts();
  Item& item = add(node);
  item.weights = unmarked(node->src[0]);
  item.ids = *node->src[2];
  item.ids.view_src = nullptr;
  set_contiguous(item.ids, sizeof(std::int32_t));
  item.id_data.reserve(route_.ids.size());
  std::uint32_t slots = 0;
  for (const ExpertIndex id : route_.ids) {
    const std::uint32_t slot = store.index(binding.part, route_.order[id]);
    slots = std::max(slots, slot + 1);
    item.id_data.push_back(static_cast<std::int32_t>(slot));
  }
  point_at_slots(item, binding, slots);
  bool window = false;
  for (std::size_t i = 0; i < route_.experts.size(); ++i) {
    window = window || store.index(binding.part, i) >= store.layer_plan(binding.layer).slots;
  }
  if (!window) return status_success;  // slots stay until the next route, which flushes first
  const Status status = flush();
  for (std::size_t i = 0; i < route_.experts.size(); ++i) store.release(binding.part, i);
  return status;
}

Status Executor::run_ready(Tensor* node, const Binding& binding, std::vector<char>& done, std::size_t& left) {
  ExpertStore& store = binding.door->experts();
  std::vector<char> chosen(done.size(), 0);
  for (std::size_t i = 0; i < done.size(); ++i) chosen[i] = done[i] == 0 && store.ready(binding.part, i) ? 1 : 0;
  const Status status = compute_rows(node, binding, chosen);
  if (status != status_success) return status;
  for (std::size_t i = 0; i < done.size(); ++i) {
    if (chosen[i] == 0) continue;
    done[i] = 1;
    --left;
    store.release(binding.part, i);
  }
  return status_success;
}

// The rows of the chosen experts, gathered, computed and put back. All rows of an expert go together and in order: its
// kernel may depend on how many there are.
Status Executor::compute_rows(Tensor* node, const Binding& binding, const std::vector<char>& chosen) {
  const Tensor* input = node->src[1];
  const std::int64_t used = node->src[2]->ne[0];
  const auto width = static_cast<std::size_t>(input->ne[0]), height = static_cast<std::size_t>(node->ne[0]);
  std::vector<std::size_t> pairs;
  for (std::size_t i = 0; i < route_.ids.size(); ++i) {
    if (chosen[route_.order[route_.ids[i]]] != 0) pairs.push_back(i);
  }
  gathered_.resize(pairs.size() * width);
  scattered_.resize(pairs.size() * height);
  Item& item = add(node);
  item.id_data.reserve(pairs.size());
  std::uint32_t slots = 0;
  for (std::size_t row = 0; row < pairs.size(); ++row) {
    const auto token = static_cast<std::int64_t>(pairs[row]) / used, k = static_cast<std::int64_t>(pairs[row]) % used;
    const char* from = static_cast<const char*>(input->data) + token * static_cast<std::int64_t>(input->nb[2]) +
                       (k % input->ne[1]) * static_cast<std::int64_t>(input->nb[1]);
    std::memcpy(&gathered_[row * width], from, width * sizeof(float));
    const std::uint32_t slot = binding.door->experts().index(binding.part, route_.order[route_.ids[pairs[row]]]);
    slots = std::max(slots, slot + 1);
    item.id_data.push_back(static_cast<std::int32_t>(slot));
  }
  const auto rows = static_cast<std::int64_t>(pairs.size());
  item.weights = unmarked(node->src[0]);
  item.input = *input;
  item.input.view_src = nullptr;
  item.input.data = gathered_.data();
  item.input.ne[1] = 1;
  item.input.ne[2] = rows;
  set_contiguous(item.input, sizeof(float));
  item.ids = *node->src[2];
  item.ids.view_src = nullptr;
  item.ids.ne[0] = 1;
  item.ids.ne[1] = rows;
  set_contiguous(item.ids, sizeof(std::int32_t));
  item.node.src[1] = &item.input;
  item.node.view_src = nullptr;
  item.node.data = scattered_.data();
  item.node.ne[1] = 1;
  item.node.ne[2] = rows;
  set_contiguous(item.node, sizeof(float));
  point_at_slots(item, binding, slots);
  const Status status = flush();
  for (std::size_t row = 0; row < pairs.size() && status == status_success; ++row) {
    const auto token = static_cast<std::int64_t>(pairs[row]) / used, k = static_cast<std::int64_t>(pairs[row]) % used;
    char* to = static_cast<char*>(node->data) + token * static_cast<std::int64_t>(node->nb[2]) +
               k * static_cast<std::int64_t>(node->nb[1]);
    std::memcpy(to, &scattered_[row * height], height * sizeof(float));
  }
  return status;
}

}  // namespace artesian::ggml
