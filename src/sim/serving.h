// A model server on a simulated drive: KV cache traffic of a trace through the store, experts of recorded routes
// through the loader, or both on one drive at once, as a workload's file says.
#pragma once

#include <filesystem>
#include <functional>

#include "nand/workload.h"

namespace artesian::sim {

// Runs whatever the workload is; flows alone need nothing of this room. `traces`: where files are looked for that are
// not where the workload says. Code::invalid or corrupt for a workload or a trace that cannot be run, with file and
// line; corrupt when a block or an expert came back with other bytes. A drive that wears out ends the run, with a
// report.
Result<nand::RunReport> run_any(const nand::Profile& profile, const nand::Workload& workload,
                                const std::filesystem::path& traces, const std::function<void(double)>& progress = {});

}  // namespace artesian::sim
