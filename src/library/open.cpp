#include "library/open.h"

#include "platform/thread_executor.h"

namespace artesian {

Result<std::unique_ptr<Host>> open_host(const StoreFilesOptions& options, const std::string& metrics) {
  auto store = open_store(options);
  if (!store) return fail(std::move(store.error()));
  auto executor = ThreadExecutor::open(1);
  if (!executor) return fail(std::move(executor.error()));
  auto host = Host::make(std::move(*store), std::move(*executor));
  if (!host || options.paths.empty()) return host;
  if (!metrics.empty()) {
    if (auto served = (*host)->serve_metrics(metrics); !served) return fail(std::move(served.error()));
  }
  const std::string socket = control_socket_of(options.paths.front());
  if (socket.empty()) return host;
  auto threads = ThreadExecutor::open(ControlServer::threads);
  const Status answers = threads ? (*host)->answer_at(socket, std::move(*threads)) : fail(threads.error());
  if (!answers && options.engine.report) {
    options.engine.report(answers.error().message + "; stat, ls and verify cannot ask this store while it is open");
  }
  return host;
}

}  // namespace artesian
