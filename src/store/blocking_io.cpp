#include "store/blocking_io.h"

#include <algorithm>
#include <array>

namespace artesian {

Status BlockingIo::read(FileIndex file, std::uint64_t offset, std::span<std::byte> buffer) {
  return one(IoOp::read, {.file = file, .offset = offset, .buffer = buffer});
}

Status BlockingIo::write(FileIndex file, std::uint64_t offset, std::span<std::byte> buffer) {
  return one(IoOp::write, {.file = file, .offset = offset, .buffer = buffer});
}

Status BlockingIo::flush(FileIndex file) {
  return one(IoOp::flush, {.file = file});
}

Status BlockingIo::one(IoOp op, Job job) {
  run(op, std::span(&job, 1));
  if (!job.good) return fail(std::move(job.error));
  return {};
}

void BlockingIo::run(IoOp op, std::span<Job> jobs) {
  std::vector<Job*> left;
  for (Job& job : jobs) left.push_back(&job);
  for (int attempt = 0; attempt < 2 && !left.empty(); ++attempt) {
    run_once(op, left);
    std::erase_if(left, [](const Job* job) { return job->good; });
  }
}

void BlockingIo::run_once(IoOp op, std::span<Job*> jobs) {
  const std::size_t depth = std::max<std::size_t>(1, std::min(device_.facts().queue_max, 64U));
  std::array<IoCompletion, 64> done;
  std::size_t next = 0, in_flight = 0;
  while (next < jobs.size() || in_flight > 0) {
    while (next < jobs.size() && in_flight < depth) {
      Job& job = *jobs[next];
      const IoRequest request{.op = op, .file = job.file, .offset = job.offset, .buffer = job.buffer, .tag = next};
      ++next;
      if (auto taken = device_.submit(std::span(&request, 1)); taken) {
        ++in_flight;
      } else {
        job.error = std::move(taken.error());
      }
    }
    if (in_flight == 0) continue;
    const std::size_t count = device_.wait(done, Nanos::max());
    for (IoCompletion& completion : std::span(done).first(count)) {
      if (completion.tag >= jobs.size()) continue;
      Job& job = *jobs[completion.tag];
      --in_flight;
      job.good = completion.status.has_value() && completion.bytes >= job.buffer.size();
      if (!job.good) {
        job.error = completion.status
                        ? Error{Code::corrupt, fmt::format("offset {}: {} of {} bytes are there", job.offset,
                                                           completion.bytes, job.buffer.size())}
                        : completion.status.error();
      }
    }
  }
}

}  // namespace artesian
