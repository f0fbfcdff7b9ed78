// Computes the nodes that the engine gives us: each is handed to the engine's CPU backend over memory in which its
// weights have arrived. A node of routed experts becomes a substitute over slots, its expert ids renumbered; where not
// all experts are there yet, those that are get computed first, rows gathered by expert. Every output row depends on
// its own inputs alone, so the bits are those of the whole node.
//
// Threads: one caller at a time (a backend belongs to one context).
#pragma once

#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "door.h"
#include "engine.h"

namespace artesian::ggml {

class Executor {
 public:
  explicit Executor(const Engine& engine);
  ~Executor();
  Executor(const Executor&) = delete;
  Executor& operator=(const Executor&) = delete;

  Status run(Graph* graph);
  Backend* delegate() const { return delegate_; }

 private:
  struct Item {  // a node to be computed, with what it points at
    Tensor node, weights, ids, input;
    std::vector<std::int32_t> id_data;
    // Of a node of which some experts' rows are computed: those rows, their inputs and outputs, and where these belong.
    std::vector<std::size_t> rows;
    std::vector<float> gathered, scattered;
    Tensor* target = nullptr;
    // Whose window slots are free when it is computed.
    const Binding* binding = nullptr;
    std::vector<std::size_t> experts;     // indices into the route's
    const Binding* dense_held = nullptr;  // whose weights may be read over then
    bool holds_weights() const { return binding != nullptr || dense_held != nullptr; }
  };
  struct Pending {  // a node of experts of which some have not arrived
    Tensor* node = nullptr;
    const Binding* binding = nullptr;
    bool gather = false;     // may be computed in pieces
    std::vector<char> done;  // by index into the route's experts
    std::size_t left = 0;
  };
  struct Survey {
    std::size_t requested = 0, ready = 0, failed = 0;
  };
  struct Route {  // whose experts the store was last told
    Door* door = nullptr;
    std::size_t layer = 0;
    std::uint64_t number = 0;          // the store's; another one there means that another context has routed since
    std::vector<ExpertIndex> ids;      // by token, as the router chose
    std::vector<ExpertIndex> experts;  // distinct, ascending
    std::vector<std::uint32_t> order;  // by expert: index into `experts`
    std::vector<char> parts_done;
    std::vector<ExpertIndex> guesses;  // for the next layer, most likely ones first
    std::size_t guessed_layer = 0;
  };

  Status run_dense(Tensor* node, Binding& binding);
  Status run_experts(Tensor* node, Binding& binding);
  Status make_way(bool for_experts);
  Status read_ids(const Tensor* node, const Binding& binding, std::vector<ExpertIndex>& ids);
  void route(const Tensor* node, const Binding& binding, std::vector<ExpertIndex> ids);
  void guess(const Tensor* node, const Binding& binding);
  void speculate(const Binding& binding);
  Survey survey(const Pending& pending, bool insist);
  bool may_compute(const Pending& pending, const Survey& found) const;
  Status finish_pending();
  void add_ready(Pending& pending);
  void add_whole(Tensor* node, const Binding& binding);
  void add_rows(Tensor* node, const Binding& binding, std::vector<std::size_t> experts);
  void put_back(const Item& item);
  Status refuse(Door& door, const Error& error);
  Item& add(Tensor* node);
  Item& add_over(Tensor* node, void* weights);
  Item& add_over_slots(Tensor* node, const Binding& binding, std::span<const ExpertIndex> ids);
  Status flush();

  const Engine& engine_;
  Backend* delegate_ = nullptr;
  Context* context_ = nullptr;
  Graph* graph_ = nullptr;
  std::deque<Item> batch_;
  Door* timed_ = nullptr;
  Route route_;
  std::vector<Pending> pending_;  // all of one route
};

// The weight of a node, looking through a view; its binding, if it is ours.
Binding* binding_of(const Tensor* weights);

}  // namespace artesian::ggml
