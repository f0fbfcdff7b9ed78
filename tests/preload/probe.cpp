// The program in front of which the shim is preloaded: one case per run, named by argv[1]; exits 0 if it holds.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <initializer_list>

extern "C" size_t ggml_backend_reg_count();
extern "C" size_t ggml_backend_dev_count();
extern "C" void ggml_backend_load_all();
extern "C" const char* fake_ggml_name(size_t index);

namespace {

int failures = 0;

#define CHECK(condition)                                                \
  do {                                                                  \
    if (!(condition)) {                                                 \
      printf("probe.cpp:%d: %s does not hold\n", __LINE__, #condition); \
      ++failures;                                                       \
    }                                                                   \
  } while (false)

constexpr size_t model_bytes = 4U << 20;
constexpr size_t page = 4096;

// A file of its own, unlinked at once.
int make_file(const char* magic, size_t bytes) {
  char path[] = "preload-probe-XXXXXX";
  const int fd = mkstemp(path);
  unlink(path);
  char block[page];
  memset(block, 'x', sizeof block);
  memcpy(block, magic, strlen(magic));
  for (size_t at = 0; at < bytes; at += sizeof block) {
    if (write(fd, block, sizeof block) != static_cast<ssize_t>(sizeof block)) abort();
    memset(block, 'y', sizeof block);
  }
  return fd;
}

// Bytes of the mapping that this process has in its page tables; whatever the page cache holds.
size_t mapped_now(const void* address) {
  FILE* maps = fopen("/proc/self/smaps", "r");
  if (maps == nullptr) abort();
  char line[1024];
  bool ours = false;
  size_t kilobytes = 0;
  while (fgets(line, sizeof line, maps) != nullptr) {
    unsigned long from = 0, to = 0;
    if (sscanf(line, "%lx-%lx ", &from, &to) == 2) ours = from == reinterpret_cast<uintptr_t>(address);
    if (ours && sscanf(line, "Rss: %zu kB", &kilobytes) == 1) break;
  }
  fclose(maps);
  return kilobytes << 10;
}

char* map_model(int fd, int flags, int protection = PROT_READ) {
  void* memory = mmap(nullptr, model_bytes, protection, flags, fd, 0);
  if (memory == MAP_FAILED) abort();
  return static_cast<char*>(memory);
}

// An advice for an address that is no page's start is refused by the kernel: whoever answers 0 did not ask it.
bool drops_willneed(char* memory) {
  const int posix = posix_madvise(memory + 1, page, POSIX_MADV_WILLNEED);
  const int plain = madvise(memory + 1, page, MADV_WILLNEED);
  CHECK((posix == 0) == (plain == 0));
  return posix == 0;
}

bool drops_sequential(int fd) {
  const int answer = posix_fadvise(fd, 0, -1, POSIX_FADV_SEQUENTIAL);  // a negative length is refused likewise
  return answer == 0;
}

bool has_plugin() {
  size_t found = 0;
  for (size_t i = 0; i < 16; ++i) found += strcmp(fake_ggml_name(i), "Artesian") == 0 ? 1 : 0;
  CHECK(found <= 1);
  return found == 1;
}

void check_lazy() {
  CHECK(ggml_backend_reg_count() == 2);
  const int fd = make_file("GGUF", model_bytes);
  CHECK(drops_sequential(fd));
  CHECK(posix_fadvise(fd, 0, -1, POSIX_FADV_RANDOM) == EINVAL);  // other advice goes on to the kernel
  for (const int sharing : {MAP_SHARED, MAP_PRIVATE}) {
    char* memory = map_model(fd, sharing | MAP_POPULATE);
    CHECK(mapped_now(memory) == 0);
    CHECK(drops_willneed(memory));
    CHECK(drops_willneed(memory + model_bytes - 2 * page));
    CHECK(madvise(memory + 1, page, MADV_RANDOM) == -1 && errno == EINVAL);
    CHECK(memory[0] == 'G' && memory[page] == 'y');
    CHECK(munmap(memory, model_bytes) == 0);
  }
  char* memory = map_model(fd, MAP_SHARED);
  CHECK(drops_willneed(memory));
  CHECK(mlock(memory, model_bytes) != 0 || mapped_now(memory) == model_bytes);
}

void check_unmapped_parts() {
  CHECK(ggml_backend_reg_count() == 2);
  const int fd = make_file("GGUF", model_bytes);
  char* memory = map_model(fd, MAP_SHARED | MAP_POPULATE);
  const size_t part = model_bytes / 4;
  CHECK(munmap(memory + part, part) == 0);  // a hole in the middle
  CHECK(munmap(memory, page) == 0);         // and the start
  CHECK(!drops_willneed(memory));
  CHECK(drops_willneed(memory + page));
  CHECK(!drops_willneed(memory + part));
  CHECK(drops_willneed(memory + 2 * part));
  CHECK(drops_willneed(memory + 3 * part));
  // Something else takes the place of the rest: its advice is the kernel's business.
  void* other = mmap(memory + 2 * part, part, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0);
  CHECK(other == memory + 2 * part);
  CHECK(!drops_willneed(memory + 2 * part));
  CHECK(drops_willneed(memory + 3 * part));
}

void check_many_models() {
  CHECK(ggml_backend_reg_count() == 2);
  const int fd = make_file("GGUF", model_bytes);
  for (int round = 0; round < 2000; ++round) {  // more than there are slots: each is given back
    char* memory = map_model(fd, MAP_SHARED);
    CHECK(drops_willneed(memory));
    munmap(memory, model_bytes);
    CHECK(!drops_willneed(memory));
  }
  char* kept[200];
  for (char*& memory : kept) memory = map_model(fd, MAP_SHARED);
  for (char* memory : kept) CHECK(drops_willneed(memory));
}

void check_eager(bool wants_plugin) {
  static_cast<void>(ggml_backend_reg_count());
  CHECK(has_plugin() == wants_plugin);
  const int fd = make_file("GGUF", model_bytes);
  char* memory = map_model(fd, MAP_SHARED | MAP_POPULATE);
  CHECK(mapped_now(memory) == model_bytes);
  CHECK(!drops_willneed(memory));
  CHECK(!drops_sequential(fd));
}

void check_others() {
  CHECK(ggml_backend_reg_count() == 2);
  const int fd = make_file("NOPE", model_bytes);
  char* memory = map_model(fd, MAP_SHARED | MAP_POPULATE);
  CHECK(mapped_now(memory) == model_bytes);
  CHECK(!drops_willneed(memory));
  CHECK(!drops_sequential(fd));
  const int model = make_file("GGUF", model_bytes);
  char* writable = map_model(model, MAP_PRIVATE | MAP_POPULATE, PROT_READ | PROT_WRITE);
  CHECK(mapped_now(writable) == model_bytes);
  char* anonymous = map_model(-1, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, PROT_READ | PROT_WRITE);
  CHECK(mapped_now(anonymous) == model_bytes);
  errno = 0;
  CHECK(mmap(nullptr, model_bytes, PROT_READ, MAP_SHARED, 9999, 0) == MAP_FAILED && errno == EBADF);
  CHECK(munmap(memory + 1, page) == -1 && errno == EINVAL);
  CHECK(posix_fadvise(9999, 0, 0, POSIX_FADV_SEQUENTIAL) == EBADF);
}

// Before anything asked ggml: the plugin is not there, so the file is mapped as asked.
void check_before_plugin() {
  const int fd = make_file("GGUF", model_bytes);
  CHECK(mapped_now(map_model(fd, MAP_SHARED | MAP_POPULATE)) == model_bytes);
  CHECK(ggml_backend_dev_count() == 2);
  CHECK(mapped_now(map_model(fd, MAP_SHARED | MAP_POPULATE)) == 0);
}

// A build with loadable backends: the engine loads its own only while none is there.
void check_loadable() {
  CHECK(ggml_backend_reg_count() == 0);
  CHECK(!has_plugin());
  ggml_backend_load_all();
  CHECK(ggml_backend_reg_count() == 3);
  CHECK(strcmp(fake_ggml_name(1), "CPU") == 0);
  CHECK(strcmp(fake_ggml_name(2), "Artesian") == 0);
  CHECK(has_plugin());
}

void* count_backends(void* out) {
  *static_cast<size_t*>(out) = ggml_backend_reg_count();
  return nullptr;
}

void check_threads() {
  constexpr size_t threads = 8;
  pthread_t handles[threads];
  size_t counts[threads] = {};
  for (size_t i = 0; i < threads; ++i) pthread_create(&handles[i], nullptr, count_backends, &counts[i]);
  for (size_t i = 0; i < threads; ++i) pthread_join(handles[i], nullptr);
  for (const size_t count : counts) CHECK(count == 2);
  void* plugin = dlopen(getenv("ARTESIAN_PLUGIN"), RTLD_LAZY | RTLD_NOLOAD);
  CHECK(plugin != nullptr);
  using Calls = int (*)();
  CHECK(plugin != nullptr && reinterpret_cast<Calls>(dlsym(plugin, "fake_plugin_init_calls"))() == 1);
}

}  // namespace

int main(int argc, char** argv) {
  const char* name = argc > 1 ? argv[1] : "";
  bool known = true;
  if (strcmp(name, "lazy") == 0)
    check_lazy();
  else if (strcmp(name, "parts") == 0)
    check_unmapped_parts();
  else if (strcmp(name, "many") == 0)
    check_many_models();
  else if (strcmp(name, "eager") == 0)
    check_eager(true);
  else if (strcmp(name, "inactive") == 0)
    check_eager(false);
  else if (strcmp(name, "others") == 0)
    check_others();
  else if (strcmp(name, "before") == 0)
    check_before_plugin();
  else if (strcmp(name, "loadable") == 0)
    check_loadable();
  else if (strcmp(name, "threads") == 0)
    check_threads();
  else
    known = false;
  if (!known) printf("there is no case '%s'\n", name);
  return known && failures == 0 ? 0 : 1;
}
