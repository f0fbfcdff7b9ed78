// An owner of a store for the library, the Python module and the daemon: opened from files, with a thread of its own.
#pragma once

#include "library/host.h"
#include "store/store_files.h"

namespace artesian {

// `metrics`: where figures are served, see MetricsEndpoint; empty: nowhere.
Result<std::unique_ptr<Host>> open_host(const StoreFilesOptions& options, const std::string& metrics = {});

}  // namespace artesian
