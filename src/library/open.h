// A store for programs, with a thread of its own: opened from files, as their one owner, or attached to the process
// that has it open. The composition root of the library, the Python module and the daemon.
#pragma once

#include "library/attach_client.h"
#include "library/host.h"
#include "store/store_files.h"

namespace artesian {

struct HostOptions {
  std::string metrics;  // where figures are served, see MetricsEndpoint; empty: nowhere
  bool share = false;   // other processes of this user may attach; needs a path with a file
};
Result<std::unique_ptr<Host>> open_host(const StoreFilesOptions& files, const HostOptions& options = {});

// The store in `path`, which another process shares; not_found if none does. Zero: as AttachSettings has it.
Result<std::unique_ptr<StoreHost>> attach_host(const std::string& path, std::uint64_t buffer_bytes = 0,
                                               std::function<void(std::string_view)> report = {});

}  // namespace artesian
