// Routed experts in memory: which are there, which are on their way, which give way. The engine names the experts of a
// node before it touches a weight; route() then starts all that is missing, companions included (gate, up and down of
// an expert share one slot number), and the caller computes what is ready while the rest arrives.
//
// What the policy does not keep goes through the window: slots that all layers share, read over in order of last use.
// Guesses are read there, too, so they never push out what the policy keeps; a batch reads ahead there.
//
// Threads: one caller at a time. Borrows model, plan, arena and loader.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "format/gguf_model.h"
#include "platform/arena.h"
#include "policy/eviction.h"
#include "policy/speculation.h"
#include "stream/expert_window.h"
#include "stream/loader.h"
#include "stream/plan.h"

namespace artesian {

struct ExpertCounters {
  std::uint64_t hits = 0, misses = 0;
  std::uint64_t resident = 0;  // experts in slots now
};

class ExpertStore {
 public:
  // `may_commit`: may so many bytes that were not committed be taken now? The governor's answer; empty: always.
  ExpertStore(const GgufModel& model, const WeightPlan& plan, Arena& arena, Loader& loader,
              const EvictionInfo& eviction, std::function<bool(std::uint64_t bytes)> may_commit);

  std::size_t layer_count() const { return layers_.size(); }
  const ExpertLayerPlan& layer_plan(std::size_t layer) const { return plan_.layers[layer]; }

  struct Route {
    std::size_t layer = 0;
    std::size_t part = 0;                   // whose bytes are wanted first
    std::span<const ExpertIndex> experts;   // that the router chose, distinct
    std::span<const ExpertIndex> by_token;  // the same as they were chosen: `per_token` for each token
    std::size_t per_token = 1;
    bool many = false;  // a batch that touches most experts: what has no slot goes through the window
  };

  // The router has chosen. Starts what is missing. The answer is this route's number. Several callers may share a
  // store: whoever finds another number in current_route() must route again, for all that follows is about the last
  // route only.
  std::uint64_t route(const Route& route);

  // These experts may be wanted next in that layer, most likely ones first: those that are missing are read into the
  // window, in idle device time. Does nothing where guesses have not paid.
  void speculate(std::size_t layer, std::span<const ExpertIndex> experts);
  bool may_speculate(std::size_t layer) const { return gate_.open(layer); }
  const SpeculationGate& speculation() const { return gate_; }

  std::uint64_t current_route() const { return route_number_; }

  // The i-th expert of the last route(): on the way or there? False when no window slot was free: then others of this
  // part are on their way or there, or reads in flight will free one; ask again after either was waited for or
  // released. To insist takes the slot of another part or layer as well: nothing that was ready there may still be
  // wanted.
  bool request(std::size_t part, std::size_t i, bool insist);
  bool ready(std::size_t part, std::size_t i) const;
  bool failed(std::size_t part, std::size_t i) const;
  // Slot number as an index from slot 0 of the part, in strides.
  std::uint32_t index(std::size_t part, std::size_t i) const;
  // The node is done with this expert's part.
  void release(std::size_t part, std::size_t i);
  // Uses idle window slots for what comes next: later parts of this route, then (many) the next layer.
  void read_ahead(std::size_t part);

  // Address of slot 0's first byte of a part, and the stride.
  std::byte* base(std::size_t layer, std::size_t part) const;
  std::uint64_t stride(std::size_t layer, std::size_t part) const;

  // Gives back at least `bytes` of slots if it can, from the layers that have most, and returns how many. Not between a
  // route() and the end of its use.
  std::uint64_t shrink(std::uint64_t bytes);

  ExpertCounters counters(std::size_t layer) const;

 private:
  static constexpr std::uint32_t none = ExpertWindow::none;

  struct Layer {
    std::vector<ExpertIndex> slots;        // who is there; none: nobody
    std::vector<std::uint32_t> slot_of;    // by expert; none if not resident
    std::vector<std::vector<Load>> loads;  // by part, by slot
    std::vector<ExpertIndex> guesses;      // read on a guess whose outcome is not known yet
    std::unique_ptr<EvictionPolicy> policy;
    ExpertCounters counters;
    std::uint32_t touched = 0;  // slots 0 .. touched-1 have memory
  };
  std::uint64_t slot_offset(std::size_t layer, std::size_t part, std::uint32_t slot) const;
  void learn(const Route& route);
  void settle_guesses();
  void admit(ExpertIndex expert);
  std::uint32_t free_slot(std::size_t layer);
  std::uint32_t victim(Layer& layer, ExpertIndex incoming);
  bool failed_anywhere(const Layer& layer, std::uint32_t slot) const;
  bool busy(const Layer& layer, std::uint32_t slot) const;
  std::size_t layer_to_shrink() const;
  std::uint64_t give_back_slot(std::size_t layer);
  void start(std::size_t layer, std::size_t part, ExpertIndex expert, std::uint32_t index, Load& load,
             Loader::Urgency urgency);
  bool in_window(std::size_t layer, ExpertIndex expert) const;
  bool read_into_window(const ExpertWindow::Key& key, Loader::Urgency urgency, bool insist);
  const Load* load_of(std::size_t part, std::size_t i) const;
  std::uint32_t window_index(std::size_t layer, std::size_t part, std::uint32_t slot) const;

  const GgufModel& model_;
  const WeightPlan& plan_;
  Arena& arena_;
  Loader& loader_;
  std::function<bool(std::uint64_t bytes)> may_commit_;
  std::vector<Layer> layers_;
  SpeculationGate gate_;
  ExpertWindow window_;

  // The route under way.
  std::uint64_t route_number_ = 0;
  std::size_t layer_ = 0;
  bool many_ = false;
  std::vector<ExpertIndex> experts_;
  std::vector<char> used_;            // by expert: does the route use it
  std::vector<std::uint32_t> uses_;   // by expert: how many tokens do
  std::vector<ExpertIndex> missing_;  // scratch
  std::vector<ExpertIndex> candidates_;
};

}  // namespace artesian
