#include "executor.h"

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <new>
#include <numeric>

namespace artesian::ggml {
namespace {

constexpr std::size_t graph_nodes_max = 256;
constexpr std::int64_t few_tokens = 16;              // up to here a node's compute is shorter than what is in flight
constexpr std::size_t guess_tokens_max = 4;          // more tokens want more experts than idle time can bring
constexpr std::uint64_t piece_bytes_min = 2U << 20;  // of weights; less is not worth a call of its own
constexpr std::size_t gather_bytes_max = 1U << 20;   // rows above this are not gathered while waiting helps

std::int64_t elements(const Tensor* tensor) {
  return tensor->ne[0] * tensor->ne[1] * tensor->ne[2] * tensor->ne[3];
}

void set_contiguous(Tensor& tensor, std::size_t element_bytes) {
  tensor.nb[0] = element_bytes;
  for (int i = 1; i < dims_max; ++i) tensor.nb[i] = tensor.nb[i - 1] * static_cast<std::size_t>(tensor.ne[i - 1]);
}

// Where the row of a chosen expert lies in a node's input or output, counted token by token, `used` a token; an input
// may have one row a token for all of them.
char* row_at(const Tensor& tensor, std::size_t row, std::int64_t used) {
  const auto token = static_cast<std::int64_t>(row) / used, k = static_cast<std::int64_t>(row) % used;
  return static_cast<char*>(tensor.data) + token * static_cast<std::int64_t>(tensor.nb[2]) +
         (k % tensor.ne[1]) * static_cast<std::int64_t>(tensor.nb[1]);
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
  timed_ = nullptr;  // whatever a batch that was given up has left
  batch_.clear();
  pending_.clear();
  const int count = engine_.graph_size(graph);
  std::unique_lock<std::mutex> lock;
  for (int i = 0; i < count; ++i) {
    Tensor* node = engine_.graph_node(graph, i);
    const bool product = node->op == engine_.op_mul_mat || node->op == engine_.op_mul_mat_id;
    Binding* binding = product && node->src[0]->buffer != nullptr ? binding_of(node->src[0]) : nullptr;
    if (elements(node) == 0 || engine_.op_computes_nothing[static_cast<std::size_t>(node->op)]) continue;
    if (binding == nullptr || binding->door == nullptr) {
      if (const Status status = make_way(false); status != status_success) return status;
      add(node);
      continue;
    }
    if (!lock.owns_lock()) lock = std::unique_lock(binding->door->mutex);
    const std::int64_t tokens = node->op == engine_.op_mul_mat_id ? node->src[2]->ne[1] : elements(node) / node->ne[0];
    if (timed_ != binding->door) {
      timed_ = binding->door;
      if (auto opened = binding->door->open(); !opened) return refuse(*binding->door, opened.error());
      if (std::ranges::none_of(batch_, &Item::holds_weights)) binding->door->govern(static_cast<std::uint64_t>(tokens));
    }
    binding->door->loader().set_long_computes(node->src[1]->ne[1] * node->src[1]->ne[2] > few_tokens);
    const bool expert = binding->expert && node->op == engine_.op_mul_mat_id && node->src[0]->view_src == nullptr;
    binding->door->count_node(*binding, static_cast<std::uint64_t>(tokens));
    const Status status = expert ? run_experts(node, *binding) : run_dense(node, *binding);
    if (status != status_success) return status;
  }
  Status status = finish_pending();
  if (status == status_success) status = flush();
  if (timed_ != nullptr) timed_->publish(false);
  timed_ = nullptr;
  return status;
}

Status Executor::refuse(Door& door, const Error& error) {
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

// With weights that lie elsewhere. The CPU backend must not see our mark in `extra`: it would keep it from its kernels
// for K-quant batches.
Executor::Item& Executor::add_over(Tensor* node, void* weights) {
  Item& item = add(node);
  item.weights = *node->src[0];
  item.weights.extra = nullptr;
  item.weights.data = weights;
  item.node.src[0] = &item.weights;
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
  for (const Item& item : batch_) {
    if (status == status_success) put_back(item);
    if (item.dense_held != nullptr) item.dense_held->door->dense().release(item.dense_held->tensor);
  }
  batch_.clear();
  if (door != nullptr) door->count_compute(door->clock().now() - start);
  return status;
}

Status Executor::run_dense(Tensor* node, Binding& binding) {
  if (const Status status = make_way(false); status != status_success) return status;
  Door& door = *binding.door;
  DenseStream& dense = door.dense();
  door.loader().poll();
  // One call of the engine's for as many nodes as can be: each costs its threads a meeting.
  const bool joins = elements(node) / node->ne[0] <= few_tokens && !binding.expert && dense.at_hand(binding.tensor) &&
                     std::ranges::none_of(batch_, [&](const Item& item) { return item.dense_held == &binding; });
  if (!joins) {
    if (const Status status = flush(); status != status_success) return status;
  }
  if (binding.expert) {  // an expert tensor used in a way we do not know: as it lies in the mapped file
    add_over(node, node->src[0]->data);
    return flush();
  }
  const auto bytes = dense.acquire(binding.tensor);
  if (!bytes) return refuse(door, bytes.error());
  Item& item = add_over(node, *bytes + (node->src[0]->view_src != nullptr ? node->src[0]->view_offs : 0));
  item.dense_held = &binding;
  return status_success;
}

// Before a node joins the batch. Ids and rows of experts are read when their node joins, so all else is computed by
// then; and what reads an experts' node wants all of its rows put back.
Status Executor::make_way(bool for_experts) {
  if (!for_experts) {
    if (const Status status = finish_pending(); status != status_success) return status;
  }
  const auto in_the_way = [&](const Item& item) {
    return for_experts ? item.binding == nullptr : item.target != nullptr;
  };
  return std::ranges::any_of(batch_, in_the_way) ? flush() : status_success;
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
  if (const Status status = make_way(true); status != status_success) return status;
  if (const Status status = read_ids(node, binding, ids); status != status_success) return status;
  if (route_.door != binding.door || route_.layer != binding.layer || route_.ids != ids) {
    if (const Status status = finish_pending(); status != status_success) return status;
    if (const Status status = flush(); status != status_success) return status;
  }
  route(node, binding, std::move(ids));
  route_.parts_done[binding.part] = 1;

  const std::size_t row_bytes = static_cast<std::size_t>(node->ne[0] + node->src[1]->ne[0]) * sizeof(float);
  const std::size_t count = route_.experts.size();
  Pending pending{.node = node,
                  .binding = &binding,
                  .gather = route_.ids.size() * row_bytes <= gather_bytes_max,
                  .done = std::vector<char>(count, 0),
                  .left = count};
  binding.door->loader().poll();
  const Survey found = survey(pending, false);
  if (found.ready == count || (pending.gather && found.ready > 0)) add_ready(pending);
  if (pending.left == 0) return status_success;
  const bool gather = pending.gather;
  pending_.push_back(std::move(pending));
  return gather ? status_success : finish_pending();
}

// What has not been asked for yet is. To insist may take the room of what was read ahead, and of what waits to be
// computed: only after flush().
Executor::Survey Executor::survey(const Pending& pending, bool insist) {
  ExpertStore& store = pending.binding->door->experts();
  const std::size_t part = pending.binding->part;
  Survey found;
  for (std::size_t i = 0; i < pending.done.size(); ++i) {
    if (pending.done[i] != 0) continue;
    found.requested += store.request(part, i, insist) ? 1 : 0;
    found.ready += store.ready(part, i) ? 1 : 0;
    found.failed += store.failed(part, i) ? 1 : 0;
  }
  if (found.requested == pending.left) {
    store.read_ahead(part);
    speculate(*pending.binding);
  }
  return found;
}

// All of it, or enough to be worth the call, or what must make room for the rest.
bool Executor::may_compute(const Pending& pending, const Survey& found) const {
  if (found.ready == 0) return false;
  if (found.ready == pending.left || found.requested < pending.left) return true;
  const std::uint64_t bytes = pending.node->src[0]->nb[2] * found.ready;
  return pending.gather && bytes >= piece_bytes_min;
}

// What waits is computed as it arrives.
Status Executor::finish_pending() {
  while (!pending_.empty()) {
    if (const Status status = flush(); status != status_success) return status;
    Loader& loader = pending_.front().binding->door->loader();
    loader.poll();
    bool added = false;
    for (Pending& pending : pending_) {
      // Only the first may insist: two that took each other's room in turn would never come to an end.
      const Survey found = survey(pending, &pending == &pending_.front());
      if (found.failed > 0) return refuse(*pending.binding->door, loader.last_error());
      if (!may_compute(pending, found)) continue;
      add_ready(pending);
      added = true;
    }
    std::erase_if(pending_, [](const Pending& pending) { return pending.left == 0; });
    if (!added && !pending_.empty()) loader.wait();
  }
  return status_success;
}

// Those that are there and not computed yet.
void Executor::add_ready(Pending& pending) {
  const ExpertStore& store = pending.binding->door->experts();
  std::vector<std::size_t> experts;
  for (std::size_t i = 0; i < pending.done.size(); ++i) {
    if (pending.done[i] != 0 || !store.ready(pending.binding->part, i)) continue;
    pending.done[i] = 1;
    experts.push_back(i);
  }
  pending.left -= experts.size();
  if (experts.size() == pending.done.size()) {
    add_whole(pending.node, *pending.binding);
  } else {
    add_rows(pending.node, *pending.binding, std::move(experts));
  }
}

// The node over the part's slots, with these experts' ids renumbered to slots.
Executor::Item& Executor::add_over_slots(Tensor* node, const Binding& binding, std::span<const ExpertIndex> ids) {
  const ExpertStore& store = binding.door->experts();
  Item& item = add_over(node, store.base(binding.layer, binding.part));
  item.id_data.reserve(ids.size());
  std::uint32_t slots = 0;
  for (const ExpertIndex id : ids) {
    const std::uint32_t slot = store.index(binding.part, route_.order[id]);
    slots = std::max(slots, slot + 1);
    item.id_data.push_back(static_cast<std::int32_t>(slot));
  }
  item.weights.ne[2] = slots;
  item.weights.nb[2] = store.stride(binding.layer, binding.part);
  item.weights.nb[3] = item.weights.nb[2] * slots;
  item.ids = *node->src[2];
  item.ids.view_src = nullptr;
  item.ids.data = item.id_data.data();
  item.node.src[2] = &item.ids;
  item.binding = &binding;
  return item;
}

// Everything is there: the node itself, over slots.
void Executor::add_whole(Tensor* node, const Binding& binding) {
  Item& item = add_over_slots(node, binding, route_.ids);
  set_contiguous(item.ids, sizeof(std::int32_t));
  item.experts.resize(route_.experts.size());
  std::iota(item.experts.begin(), item.experts.end(), std::size_t{0});
}

// The rows of some experts, gathered; put_back() follows. All rows of an expert go together and in order: its kernel
// may depend on how many there are.
void Executor::add_rows(Tensor* node, const Binding& binding, std::vector<std::size_t> experts) {
  const Tensor* input = node->src[1];
  std::vector<char> chosen(route_.experts.size(), 0);
  for (const std::size_t i : experts) chosen[i] = 1;
  std::vector<std::size_t> rows;
  std::vector<ExpertIndex> ids;
  for (std::size_t i = 0; i < route_.ids.size(); ++i) {
    if (chosen[route_.order[route_.ids[i]]] == 0) continue;
    rows.push_back(i);
    ids.push_back(route_.ids[i]);
  }
  Item& item = add_over_slots(node, binding, ids);
  const auto width = static_cast<std::size_t>(input->ne[0]), height = static_cast<std::size_t>(node->ne[0]);
  item.gathered.resize(rows.size() * width);
  item.scattered.resize(rows.size() * height);
  for (std::size_t row = 0; row < rows.size(); ++row) {
    std::memcpy(&item.gathered[row * width], row_at(*input, rows[row], node->src[2]->ne[0]), width * sizeof(float));
  }
  const auto count = static_cast<std::int64_t>(rows.size());
  item.input = *input;
  item.input.view_src = nullptr;
  item.input.data = item.gathered.data();
  item.input.ne[1] = 1;
  item.input.ne[2] = count;
  set_contiguous(item.input, sizeof(float));
  item.ids.ne[0] = 1;
  item.ids.ne[1] = count;
  set_contiguous(item.ids, sizeof(std::int32_t));
  item.node.src[1] = &item.input;
  item.node.view_src = nullptr;
  item.node.data = item.scattered.data();
  item.node.ne[1] = 1;
  item.node.ne[2] = count;
  set_contiguous(item.node, sizeof(float));
  item.target = node;
  item.rows = std::move(rows);
  item.experts = std::move(experts);
}

// After a node is computed: gathered rows go where they belong, window slots become free.
void Executor::put_back(const Item& item) {
  if (item.target != nullptr) {
    const auto height = static_cast<std::size_t>(item.target->ne[0]);
    for (std::size_t row = 0; row < item.rows.size(); ++row) {
      std::memcpy(row_at(*item.target, item.rows[row], item.target->src[2]->ne[0]), &item.scattered[row * height],
                  height * sizeof(float));
    }
  }
  if (item.binding == nullptr) return;
  ExpertStore& store = item.binding->door->experts();
  for (const std::size_t i : item.experts) store.release(item.binding->part, i);
}

}  // namespace artesian::ggml
