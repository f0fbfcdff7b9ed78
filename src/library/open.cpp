#include "library/open.h"

#include "platform/clock.h"
#include "platform/thread_executor.h"

namespace artesian {
namespace {

// Hands `threads` of them to `take`.
template <typename Take>
Status with_threads(std::size_t threads, Take take) {
  auto executor = ThreadExecutor::open(threads);
  return executor ? take(std::move(*executor)) : fail(std::move(executor.error()));
}

Status share(Host& host, const StorePath& path) {
  const std::string socket = attach_socket_of(path);
  if (socket.empty()) return fail(Code::invalid, "{}: a block device has no place for a socket to share it", path.path);
  return with_threads(AttachServer::threads,
                      [&](auto executor) { return host.take_clients(socket, std::move(executor)); });
}

}  // namespace

Result<std::unique_ptr<Host>> open_host(const StoreFilesOptions& files, const HostOptions& options) {
  auto store = open_store(files);
  if (!store) return fail(std::move(store.error()));
  auto executor = ThreadExecutor::open(1);
  if (!executor) return fail(std::move(executor.error()));
  auto host = Host::make(std::move(*store), std::move(*executor));
  if (!host || files.paths.empty()) return host;
  if (!options.metrics.empty()) {
    if (auto served = (*host)->serve_metrics(options.metrics); !served) return fail(std::move(served.error()));
  }
  if (const std::string socket = control_socket_of(files.paths.front()); !socket.empty()) {
    const Status answers = with_threads(ControlServer::threads,
                                        [&](auto threads) { return (*host)->answer_at(socket, std::move(threads)); });
    if (!answers && files.engine.report) {
      files.engine.report(answers.error().message + "; stat, ls and verify cannot ask this store while it is open");
    }
  }
  if (options.share) {
    if (auto shared = share(**host, files.paths.front()); !shared) return fail(std::move(shared.error()));
  }
  return host;
}

Result<std::unique_ptr<StoreHost>> attach_host(const std::string& path, std::uint64_t buffer_bytes,
                                               std::function<void(std::string_view)> report) {
  static const SteadyClock clock;
  const StorePath where{.path = path};
  AttachSettings settings{
      .socket = attach_socket_of(where), .control = control_socket_of(where), .report = std::move(report)};
  if (buffer_bytes > 0) settings.buffer_bytes = buffer_bytes;
  auto executor = ThreadExecutor::open(1);
  if (!executor) return fail(std::move(executor.error()));
  return attach_store(std::move(settings), clock, std::move(*executor));
}

}  // namespace artesian
