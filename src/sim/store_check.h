// The rows of the drive model's table that need the store: what placement handles are worth to it.
#pragma once

#include <vector>

#include "base/result.h"
#include "nand/check.h"

namespace artesian::sim {

// Appends. Fails when a run does, with its reason: then there are no rows.
Status check_store(std::vector<nand::CheckRow>& rows, const nand::CheckOptions& options);

}  // namespace artesian::sim
