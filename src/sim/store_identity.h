// Who a simulated store is: made up from a seed, so that the same run gives the same bytes. Pure.
#pragma once

#include <cstdint>

#include "nand/random.h"
#include "store/layout.h"

namespace artesian::sim {

inline StoreIdentity store_identity(std::uint64_t seed) {
  nand::Random random(seed);
  StoreIdentity made;
  made.paths.resize(1);
  for (auto* id : {&made.store, &made.paths[0]}) {
    for (auto& byte : *id) byte = static_cast<std::byte>(random.below(256));
  }
  for (auto& byte : made.secret) byte = static_cast<std::byte>(random.below(256));
  return made;
}

}  // namespace artesian::sim
