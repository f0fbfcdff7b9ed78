// The models of `artesian bench weights`: the one that is given, or generated ones that are made once and kept.
#pragma once

#include <functional>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "bench/weights_cases.h"
#include "commands.h"

namespace artesian::cli {

struct BenchModels {
  std::string given;  // path; empty: generated ones
  bool given_has_experts = false;
  std::uint64_t given_bytes = 0;  // of its tensors
  std::map<bench::BenchModel, std::vector<std::string>> files;
  std::map<bench::BenchModel, std::string> names;  // for people

  // Whether the model that is given can be what this case asks for. Generated ones always can.
  bool suits(const bench::WeightsCase& info) const;
};

// The model at `path`, or for an empty path generated ones, which are not made yet.
Result<BenchModels> find_bench_models(const std::string& path);

// The only real model that is there: that of ARTESIAN_MODEL, else the one that ./quickstart and ./test keep in the
// cache.
Result<std::string> find_real_model(const Context& context);

// Makes those of the generated models that are wanted and not in the cache folder yet, with the tokenizer of a GGUF
// (empty: the one that ./quickstart and ./test keep there). `report` hears what is being made.
Status make_bench_models(BenchModels& models, const std::set<bench::BenchModel>& wanted, const std::string& tokenizer,
                         const Context& context, const std::function<void(const std::string&)>& report);

}  // namespace artesian::cli
