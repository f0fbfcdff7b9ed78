// A store's figures for Prometheus, by prometheus-cpp: read when they are asked for, so they cost nothing in between.
//
// Threads: answers come from threads of the endpoint's own. Ownership: the store lives longer than the endpoint.
#pragma once

#include <memory>
#include <string>

#include "artesian/store.h"

namespace artesian {

class MetricsEndpoint {
 public:
  // "9464" or "127.0.0.1:9464": on this machine alone unless another address is named; port 0 for any that is free.
  // rejected if it cannot be listened at, invalid for what is no address.
  static Result<std::unique_ptr<MetricsEndpoint>> serve(Store& store, const std::string& address);
  virtual ~MetricsEndpoint() = default;

  virtual int port() const = 0;
};

// All figures as /metrics gives them.
std::string metrics_text(const StoreStats& stats);

}  // namespace artesian
