// A stand-in for libggml-artesian.so: counts how often it is brought in, asks the registry while it is (as the real one
// does), answers for lazy mapping what FAKE_LAZY says, and writes FAKE_STATS as its figures.
#include <fcntl.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

extern "C" size_t ggml_backend_reg_count();
extern "C" size_t ggml_backend_dev_count();

namespace {

int init_calls = 0;

// The layout of src/stream/stats_file.h, written here by hand so that the two sides are checked against each other.
void write_stats(const char* path, const char* text) {
  constexpr size_t bytes = 256U << 10;
  const int fd = open(path, O_RDWR);
  if (fd < 0) return;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (memory == MAP_FAILED) return;
  const uint64_t sequence = 2;
  const auto length = static_cast<uint32_t>(strlen(text));
  auto* out = static_cast<char*>(memory);
  const auto owner = static_cast<uint32_t>(getpid());
  memcpy(out + 24, text, length);
  memcpy(out + 20, &owner, sizeof owner);
  memcpy(out + 16, &length, sizeof length);
  memcpy(out + 8, &sequence, sizeof sequence);
  memcpy(out, "ARSTATS1", 8);
  munmap(memory, bytes);
}

}  // namespace

EXPORT const char* ggml_backend_init() {
  ++init_calls;
  static_cast<void>(ggml_backend_reg_count());
  static_cast<void>(ggml_backend_dev_count());
  const char* path = getenv("ARTESIAN_STATS");
  const char* text = getenv("FAKE_STATS");
  if (path != nullptr && text != nullptr) write_stats(path, text);
  return "Artesian";
}

EXPORT int artesian_wants_lazy_mapping(int) {
  const char* lazy = getenv("FAKE_LAZY");
  return lazy == nullptr ? 1 : atoi(lazy);
}

EXPORT int fake_plugin_init_calls() {
  return init_calls;
}
