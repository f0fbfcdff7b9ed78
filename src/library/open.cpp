#include "library/open.h"

#include "platform/thread_executor.h"

namespace artesian {

Result<std::unique_ptr<Host>> open_host(const StoreFilesOptions& options) {
  auto store = open_store(options);
  if (!store) return fail(std::move(store.error()));
  auto executor = ThreadExecutor::open(1);
  if (!executor) return fail(std::move(executor.error()));
  return Host::make(std::move(*store), std::move(*executor));
}

}  // namespace artesian
