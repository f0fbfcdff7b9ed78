// A mixture-of-experts model whose experts stream through the weights door's own loader, as its router chose them in
// a recording: the prompt touches all experts of every layer once, then each token waits for what it uses and is not
// there. All of a layer's compute takes its share of the time that a token takes in memory. What the door guesses ahead
// of the router is not simulated: recordings do not say what routers would have guessed.
//
// Not thread safe. Runs the course of a Node: it waits, others act meanwhile. Trace, node and device are the caller's.
#pragma once

#include <cstdint>
#include <memory>
#include <unordered_map>

#include "bench/route_trace.h"
#include "format/gguf_model.h"
#include "nand/serving.h"
#include "sim/node.h"
#include "stream/experts.h"

namespace artesian::sim {

class ExpertDecoding {
 public:
  // Bytes of the file that holds the experts, one layer after the other.
  static std::uint64_t file_bytes(const bench::RouteTrace& trace);
  // Puts them onto the drive, in no time.
  static Status preload(nand::NandDevice& drive, FileIndex file, const bench::RouteTrace& trace);

  // Code::rejected when the memory is too small for the model.
  static Result<std::unique_ptr<ExpertDecoding>> create(Node& node, Device& device, const Clock& clock,
                                                        const bench::RouteTrace& trace, const nand::Serving& serving);

  Status prompt();
  std::uint64_t tokens() const { return tokens_; }
  Status decode(std::uint64_t token);
  const nand::TokenReport& report() const { return report_; }

 private:
  ExpertDecoding(Node& node, const Clock& clock, const bench::RouteTrace& trace, const nand::Serving& serving,
                 GgufModel model, WeightPlan plan, Arena arena, Loader loader);
  Status layer(std::size_t layer, std::span<const ExpertIndex> experts, std::size_t per_token, bool many,
               Nanos compute);
  Status part(std::size_t layer, std::size_t part, std::span<const ExpertIndex> experts);
  Status compare(std::size_t layer, std::size_t part, std::size_t i, ExpertIndex expert);
  void pass(Nanos time);

  Node& node_;
  const Clock& clock_;
  const bench::RouteTrace& trace_;
  nand::Serving serving_;
  GgufModel model_;
  WeightPlan plan_;
  Arena arena_;
  Loader loader_;
  ExpertStore store_;
  std::uint64_t tokens_;
  std::unordered_map<const std::byte*, std::uint64_t> compared_;  // whose bytes were found right there
  nand::TokenReport report_;
};

}  // namespace artesian::sim
