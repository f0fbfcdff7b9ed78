// Every n-th system call fails, for n = 1, 2, ... until a run is clean: a store is made, opened, written over more than
// once and read, and each time what is found is right or a miss, nothing hangs and nothing is left that cannot be
// opened. The calls are those of this program's own: it stands between the code and the C library.
// Not under ThreadSanitizer, which has to stand there itself before anything else runs.
#ifndef __SANITIZE_THREAD__
#include <dlfcn.h>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <liburing.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdarg>

#include "store/engine_model_rig_test.h"
#include "store/store_files.h"

namespace {

std::atomic<std::uint64_t> calls{0}, fails_at{0};  // 0: none fails, and none is counted
std::atomic<bool> without_ring{false};

bool fails() {
  return fails_at != 0 && ++calls == fails_at;
}

template <typename Function>
Function next_of(const char* name) {
  return reinterpret_cast<Function>(::dlsym(RTLD_NEXT, name));
}

}  // namespace

// What a call returns when it fails, after errno was set.
#define ARTESIAN_FAILING(result, name, parameters, arguments)      \
  extern "C" result name parameters {                              \
    static const auto next = next_of<result(*) parameters>(#name); \
    if (fails()) {                                                 \
      errno = EIO;                                                 \
      return static_cast<result>(-1);                              \
    }                                                              \
    return next arguments;                                         \
  }

ARTESIAN_FAILING(int, ftruncate, (int fd, off_t bytes) noexcept, (fd, bytes))
ARTESIAN_FAILING(int, fallocate, (int fd, int mode, off_t from, off_t bytes), (fd, mode, from, bytes))
ARTESIAN_FAILING(int, fdatasync, (int fd), (fd))
ARTESIAN_FAILING(int, fstat, (int fd, struct stat* facts) noexcept, (fd, facts))
ARTESIAN_FAILING(off_t, lseek, (int fd, off_t at, int from) noexcept, (fd, at, from))
ARTESIAN_FAILING(ssize_t, preadv, (int fd, const iovec* memory, int count, off_t at), (fd, memory, count, at))
ARTESIAN_FAILING(ssize_t, pwritev, (int fd, const iovec* memory, int count, off_t at), (fd, memory, count, at))
ARTESIAN_FAILING(ssize_t, getrandom, (void* out, size_t bytes, unsigned flags), (out, bytes, flags))
ARTESIAN_FAILING(int, eventfd, (unsigned count, int flags) noexcept, (count, flags))

extern "C" int open(const char* path, int flags, ...) {
  static const auto next = next_of<int (*)(const char*, int, ...)>("open");
  std::va_list more;
  va_start(more, flags);
  const mode_t mode = (flags & (O_CREAT | O_TMPFILE)) != 0 ? va_arg(more, mode_t) : 0;
  va_end(more);
  if (fails()) {
    errno = EIO;
    return -1;
  }
  return next(path, flags, mode);
}

// Arenas are the only ones to ask for it so.
extern "C" void* mmap(void* where, size_t bytes, int protection, int flags, int fd, off_t at) noexcept {
  static const auto next = next_of<void* (*)(void*, size_t, int, int, int, off_t)>("mmap");
  if ((flags & MAP_NORESERVE) != 0 && fails()) {
    errno = ENOMEM;
    return MAP_FAILED;
  }
  return next(where, bytes, protection, flags, fd, at);
}

extern "C" int io_uring_queue_init_params(unsigned entries, io_uring* ring, io_uring_params* params) {
  static const auto next = next_of<int (*)(unsigned, io_uring*, io_uring_params*)>("io_uring_queue_init_params");
  return without_ring || fails() ? -EPERM : next(entries, ring, params);
}
extern "C" int io_uring_submit(io_uring* ring) {
  static const auto next = next_of<int (*)(io_uring*)>("io_uring_submit");
  return fails() ? -EIO : next(ring);
}
extern "C" int io_uring_submit_and_wait_timeout(io_uring* ring, io_uring_cqe** cqe, unsigned count,
                                                __kernel_timespec* limit, sigset_t* mask) {
  static const auto next = next_of<int (*)(io_uring*, io_uring_cqe**, unsigned, __kernel_timespec*, sigset_t*)>(
      "io_uring_submit_and_wait_timeout");
  return fails() ? -EIO : next(ring, cqe, count, limit, mask);
}

namespace artesian {
namespace {

class NthCall : public testing::TestWithParam<bool> {
 protected:
  void SetUp() override {
    folder_ = "nth-call-XXXXXX";  // on the disk of the build: a memory file system may refuse direct reads
    ASSERT_NE(::mkdtemp(folder_.data()), nullptr);
    options_.paths = {{.path = folder_, .bytes = 6 * MiB}};
    options_.geometry = {.segment_bytes = 512 * KiB, .block_bytes_max = 256 * KiB};
    options_.lock_patience = std::chrono::milliseconds(20);
    without_ring = GetParam();
  }
  void TearDown() override {
    fails_at = 0;
    without_ring = false;
    ::unlink((folder_ + "/artesian.store").c_str());
    ::rmdir(folder_.c_str());
  }
  // Each number is put once: what is found of it is that.
  static void look(Store& store) {
    const auto ns = store.open_namespace(some_fields());
    if (!ns) return;
    const std::uint64_t nth = fails_at;
    fails_at = 0;  // the memory that the test itself takes is always there
    OneByOne one(store, *ns);
    fails_at = nth;
    for (std::uint64_t i = 0; i < 40; ++i) one.get(i);
  }
  void work() {
    if (!create_store(options_, true)) return;
    const auto store = open_store(options_);
    if (!store) return;
    const auto ns = (*store)->open_namespace(some_fields());
    if (!ns) return;
    const std::uint64_t nth = fails_at;
    fails_at = 0;
    OneByOne one(**store, *ns);
    fails_at = nth;
    for (std::uint64_t i = 0; i < 40; ++i) one.put(i, 150'000);
    static_cast<void>((*store)->flush());
    look(**store);
  }

  std::string folder_;
  StoreFilesOptions options_;
};

TEST_P(NthCall, LeavesRightBlocksOrNone) {
  std::uint64_t n = 1;
  for (;; n += 1 + n / (8 * test_scale())) {
    calls = 0;
    fails_at = n;
    work();
    const bool reached = calls >= n;
    fails_at = 0;
    if (!reached) break;
    const auto store = open_store(options_);
    if (store) {
      look(**store);
      const auto report = (*store)->verify(nullptr);
      ASSERT_TRUE(report) << n;
      EXPECT_EQ(report->bad, 0U) << n;
    } else {
      EXPECT_FALSE(store.error().message.empty()) << n;
    }
    ASSERT_FALSE(HasFailure()) << "call " << n;
  }
  EXPECT_GT(n, 100U);
}

INSTANTIATE_TEST_SUITE_P(Backends, NthCall, testing::Bool(),
                         [](const testing::TestParamInfo<bool>& of) { return of.param ? "Threads" : "Ring"; });

}  // namespace
}  // namespace artesian

#endif  // __SANITIZE_THREAD__
