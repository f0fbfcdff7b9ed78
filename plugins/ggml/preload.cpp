// The preload shim: a library that `artesian run` puts in front of a llama.cpp program (LD_PRELOAD). It does two
// things. It brings the plugin in: engines without loadable backends never look for one, so the first call that asks
// ggml how many backends there are loads it, as soon as the engine's CPU backend stands. And it lets a model be mapped
// without being read: the engine asks for all of the file before the first token (MAP_POPULATE, WILLNEED), which for a
// model larger than memory costs minutes and everything else in memory. Only the plugin knows whether the model fits;
// its `artesian_wants_lazy_mapping(fd)` is asked for each GGUF file, and unless it answers 1 all goes on as without us.
//
// Environment (read here only): ARTESIAN_PLUGIN, the plugin's path; ARTESIAN_ACTIVE=0 switches the shim off.
// Threads: all of it may be called from any thread at any time. The table of mapped models has no lock: a race between
// an unmapping and an advice costs at most one advice too many or too few, never a wrong mapping.
// Needs nothing but libc: it is loaded into every program and script that the engine's start goes through.
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <link.h>
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#define SHIM_EXPORT extern "C" __attribute__((visibility("default")))

namespace {

constexpr size_t smallest_model_bytes = 1U << 20;  // smaller mappings without MAP_POPULATE are not worth a look
constexpr size_t max_ranges = 256;                 // mapped models, and what is left when parts of them are unmapped

// ---- the environment ------------------------------------------------------------------------------------------------

const char* plugin_path() {
  const char* active = getenv("ARTESIAN_ACTIVE");
  if (active != nullptr && strcmp(active, "0") == 0) return nullptr;
  const char* path = getenv("ARTESIAN_PLUGIN");
  return path != nullptr && path[0] != '\0' ? path : nullptr;
}

// ---- finding the engine's own functions -----------------------------------------------------------------------------

// A handle's symbols are its own and its dependencies': never this shim's, which is in the program's list only.
void* symbol_of_object(const char* path, const char* name) {
  void* handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return nullptr;
  void* symbol = dlsym(handle, name);
  dlclose(handle);  // the object stays: somebody else has it open
  return symbol;
}

struct Search {
  size_t skip;  // how many candidates were tried before
  char path[PATH_MAX];
};

int next_ggml(dl_phdr_info* info, size_t, void* data) {
  auto* search = static_cast<Search*>(data);
  const char* slash = strrchr(info->dlpi_name, '/');
  const char* base = slash != nullptr ? slash + 1 : info->dlpi_name;
  const size_t length = strlen(info->dlpi_name);
  if (strncmp(base, "libggml", 7) != 0 || length >= sizeof search->path) return 0;
  if (search->skip > 0) {
    --search->skip;
    return 0;
  }
  memcpy(search->path, info->dlpi_name, length + 1);
  return 1;
}

// The last resort: any ggml in the process. The loader's list is not open while a candidate is asked: its locks are
// taken in the other order by dlopen.
void* symbol_of_any_ggml(const char* name) {
  Search search{};
  for (size_t tried = 0; tried < 64; ++tried) {
    search.skip = tried;
    if (dl_iterate_phdr(next_ggml, &search) == 0) return nullptr;
    void* symbol = symbol_of_object(search.path, name);
    if (symbol != nullptr) return symbol;
  }
  return nullptr;
}

// What the caller would have reached without us. A program's own libraries come next in its list; a library that was
// opened by handle (Python does that) sees the list first and then its own dependencies.
void* real_symbol(const char* name, void* caller) {
  void* next = dlsym(RTLD_NEXT, name);
  if (next != nullptr) return next;
  Dl_info info{};
  if (dladdr(caller, &info) != 0 && info.dli_fname != nullptr && strchr(info.dli_fname, '/') != nullptr) {
    void* own = symbol_of_object(info.dli_fname, name);
    Dl_info where{};
    // The main program's handle leads to the whole list, and so back to us.
    if (own != nullptr && dladdr(own, &where) != 0) {
      Dl_info self{};
      if (dladdr(reinterpret_cast<void*>(&plugin_path), &self) == 0 || where.dli_fbase != self.dli_fbase) return own;
    }
  }
  return symbol_of_any_ggml(name);
}

template <typename Function>
Function real_function(const char* name, void* caller) {
  return reinterpret_cast<Function>(real_symbol(name, caller));
}

// ---- bringing the plugin in -----------------------------------------------------------------------------------------

using CountFunction = size_t (*)();
using LoadFunction = void* (*)(const char*);
using FindFunction = void* (*)(const char*);
using LoadAllFunction = void (*)();
using LoadAllFromFunction = void (*)(const char*);

pthread_mutex_t plugin_mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
bool plugin_settled = false;  // atomic: loaded, or never to be
bool plugin_busy = false;     // under plugin_mutex: registering calls the very functions that we stand in front of

void say(const char* sentence) {
  const ssize_t written = write(STDERR_FILENO, sentence, strlen(sentence));
  static_cast<void>(written);
}

bool is_loaded(const char* path) {
  void* handle = dlopen(path, RTLD_LAZY | RTLD_NOLOAD);
  if (handle == nullptr) return false;
  dlclose(handle);
  return true;
}

// Returns whether the matter is settled.
bool try_plugin(void* caller) {
  const char* path = plugin_path();
  if (path == nullptr || is_loaded(path)) return true;
  const auto find = real_function<FindFunction>("ggml_backend_reg_by_name", caller);
  const auto load = real_function<LoadFunction>("ggml_backend_load", caller);
  if (find == nullptr || load == nullptr) {
    say("artesian: this program's ggml cannot load backends; it runs as if artesian were not there\n");
    return true;
  }
  // With loadable backends the engine loads its own only while none is registered: ours must not be the first.
  if (find("CPU") == nullptr) return false;
  if (find("Artesian") == nullptr) load(path);
  return true;
}

void bring_plugin(void* caller) {
  if (__atomic_load_n(&plugin_settled, __ATOMIC_ACQUIRE)) return;
  pthread_mutex_lock(&plugin_mutex);
  if (!plugin_busy && !plugin_settled) {
    plugin_busy = true;
    if (try_plugin(caller)) __atomic_store_n(&plugin_settled, true, __ATOMIC_RELEASE);
    plugin_busy = false;
  }
  pthread_mutex_unlock(&plugin_mutex);
}

// While the engine loads its own backends, questions that they ask must not bring ours in among them.
template <typename Call>
void load_all_then_plugin(void* caller, Call call) {
  pthread_mutex_lock(&plugin_mutex);
  const bool outer = !plugin_busy;
  plugin_busy = true;
  call();
  if (outer) plugin_busy = false;
  pthread_mutex_unlock(&plugin_mutex);
  if (outer) bring_plugin(caller);
}

// ---- mapped models --------------------------------------------------------------------------------------------------

struct Range {
  uintptr_t begin;  // 0: free, 1: being filled
  uintptr_t end;
};
Range ranges[max_ranges];
size_t ranges_used = 0;  // slots that ever held one: a program without models pays one load per unmapping

void remember(uintptr_t begin, uintptr_t end) {
  for (size_t i = 0; i < max_ranges; ++i) {
    uintptr_t free_slot = 0;
    if (!__atomic_compare_exchange_n(&ranges[i].begin, &free_slot, 1, false, __ATOMIC_ACQ_REL, __ATOMIC_RELAXED))
      continue;
    __atomic_store_n(&ranges[i].end, end, __ATOMIC_RELEASE);
    __atomic_store_n(&ranges[i].begin, begin, __ATOMIC_RELEASE);
    size_t used = __atomic_load_n(&ranges_used, __ATOMIC_ACQUIRE);
    while (used < i + 1 &&
           !__atomic_compare_exchange_n(&ranges_used, &used, i + 1, false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE)) {
    }
    return;
  }
}

void forget(uintptr_t begin, uintptr_t end) {
  const size_t used = __atomic_load_n(&ranges_used, __ATOMIC_ACQUIRE);
  for (size_t i = 0; i < used; ++i) {
    const uintptr_t from = __atomic_load_n(&ranges[i].begin, __ATOMIC_ACQUIRE);
    const uintptr_t to = __atomic_load_n(&ranges[i].end, __ATOMIC_ACQUIRE);
    if (from <= 1 || end <= from || to <= begin) continue;
    if (begin <= from && to <= end) {
      __atomic_store_n(&ranges[i].begin, uintptr_t{0}, __ATOMIC_RELEASE);
    } else if (begin <= from) {
      __atomic_store_n(&ranges[i].begin, end, __ATOMIC_RELEASE);
    } else {
      __atomic_store_n(&ranges[i].end, begin, __ATOMIC_RELEASE);
      if (end < to) remember(end, to);
    }
  }
}

bool is_remembered(uintptr_t begin, uintptr_t end) {
  const size_t used = __atomic_load_n(&ranges_used, __ATOMIC_ACQUIRE);
  for (size_t i = 0; i < used; ++i) {
    const uintptr_t from = __atomic_load_n(&ranges[i].begin, __ATOMIC_ACQUIRE);
    if (from > 1 && from <= begin && end <= __atomic_load_n(&ranges[i].end, __ATOMIC_ACQUIRE)) return true;
  }
  return false;
}

bool is_gguf(int fd) {
  char magic[4] = {};
  return pread(fd, magic, sizeof magic, 0) == static_cast<ssize_t>(sizeof magic) && memcmp(magic, "GGUF", 4) == 0;
}

// The plugin's answer for this file: 1 means that it will stream the weights and wants none of them read ahead.
bool plugin_wants_lazy(int fd) {
  using Wants = int (*)(int);
  static void* cached = nullptr;  // atomic; the handle is kept, so it stays valid
  void* wants = __atomic_load_n(&cached, __ATOMIC_ACQUIRE);
  if (wants == nullptr) {
    const char* path = plugin_path();
    void* handle = path != nullptr ? dlopen(path, RTLD_LAZY | RTLD_NOLOAD) : nullptr;
    if (handle == nullptr) return false;
    wants = dlsym(handle, "artesian_wants_lazy_mapping");
    if (wants == nullptr) {
      dlclose(handle);
      return false;
    }
    __atomic_store_n(&cached, wants, __ATOMIC_RELEASE);
  }
  return reinterpret_cast<Wants>(wants)(fd) == 1;
}

bool is_streamed_model(int fd) {
  if (plugin_path() == nullptr) return false;
  const int saved = errno;
  const bool streamed = is_gguf(fd) && plugin_wants_lazy(fd);
  errno = saved;
  return streamed;
}

uintptr_t page_up(uintptr_t address) {
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  return (address + page - 1) & ~(page - 1);
}

void* map(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) {
  bool lazy = false;
  const bool anonymous = (flags & MAP_ANONYMOUS) != 0;
  if (!anonymous && fd >= 0 && protection == PROT_READ &&
      ((flags & MAP_POPULATE) != 0 || bytes >= smallest_model_bytes)) {
    lazy = is_streamed_model(fd);
  }
  if (lazy) flags &= ~MAP_POPULATE;
  const long result = syscall(SYS_mmap, address, bytes, protection, flags, fd, offset);
  if (result == -1) return MAP_FAILED;
  const auto begin = static_cast<uintptr_t>(result);
  if ((flags & MAP_FIXED) != 0) forget(begin, page_up(begin + bytes));
  if (lazy) remember(begin, page_up(begin + bytes));
  return reinterpret_cast<void*>(result);
}

bool asks_for_all(int advice) {
#ifdef MADV_POPULATE_READ
  if (advice == MADV_POPULATE_READ) return true;
#endif
  return advice == MADV_WILLNEED;
}

bool is_dropped(void* address, size_t bytes, int advice) {
  const auto begin = reinterpret_cast<uintptr_t>(address);
  return asks_for_all(advice) && is_remembered(begin, begin + bytes);
}

int advise_file(int fd, off_t offset, off_t bytes, int advice) {
  if ((advice == POSIX_FADV_SEQUENTIAL || advice == POSIX_FADV_WILLNEED) && is_streamed_model(fd)) return 0;
  const int saved = errno;
  const long result = syscall(SYS_fadvise64, fd, offset, bytes, advice);
  const int error = result == -1 ? errno : 0;
  errno = saved;
  return error;
}

}  // namespace

// ---- what the program calls -----------------------------------------------------------------------------------------

SHIM_EXPORT size_t ggml_backend_reg_count() {
  void* caller = __builtin_return_address(0);
  bring_plugin(caller);
  const auto real = real_function<CountFunction>("ggml_backend_reg_count", caller);
  return real != nullptr ? real() : 0;
}

SHIM_EXPORT size_t ggml_backend_dev_count() {
  void* caller = __builtin_return_address(0);
  bring_plugin(caller);
  const auto real = real_function<CountFunction>("ggml_backend_dev_count", caller);
  return real != nullptr ? real() : 0;
}

SHIM_EXPORT void ggml_backend_load_all() {
  void* caller = __builtin_return_address(0);
  const auto real = real_function<LoadAllFunction>("ggml_backend_load_all", caller);
  if (real != nullptr) load_all_then_plugin(caller, real);
}

SHIM_EXPORT void ggml_backend_load_all_from_path(const char* folder) {
  void* caller = __builtin_return_address(0);
  const auto real = real_function<LoadAllFromFunction>("ggml_backend_load_all_from_path", caller);
  if (real != nullptr) load_all_then_plugin(caller, [&] { real(folder); });
}

SHIM_EXPORT void* mmap(void* address, size_t bytes, int protection, int flags, int fd, off_t offset) noexcept {
  return map(address, bytes, protection, flags, fd, offset);
}

SHIM_EXPORT void* mmap64(void* address, size_t bytes, int protection, int flags, int fd, off64_t offset) noexcept {
  return map(address, bytes, protection, flags, fd, offset);
}

SHIM_EXPORT int munmap(void* address, size_t bytes) noexcept {
  // Forgotten first: once the range is unmapped, another thread may get the same addresses for something else.
  if (__atomic_load_n(&ranges_used, __ATOMIC_ACQUIRE) != 0) {
    const auto begin = reinterpret_cast<uintptr_t>(address);
    forget(begin, page_up(begin + bytes));
  }
  return static_cast<int>(syscall(SYS_munmap, address, bytes));
}

SHIM_EXPORT int madvise(void* address, size_t bytes, int advice) noexcept {
  if (is_dropped(address, bytes, advice)) return 0;
  return static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

SHIM_EXPORT int posix_madvise(void* address, size_t bytes, int advice) noexcept {
  if (is_dropped(address, bytes, advice)) return 0;
  if (advice == POSIX_MADV_DONTNEED) return 0;  // as libc has it: the kernel's DONTNEED would throw data away
  const int saved = errno;
  const long result = syscall(SYS_madvise, address, bytes, advice);
  const int error = result == -1 ? errno : 0;
  errno = saved;
  return error;
}

SHIM_EXPORT int posix_fadvise(int fd, off_t offset, off_t bytes, int advice) noexcept {
  return advise_file(fd, offset, bytes, advice);
}

SHIM_EXPORT int posix_fadvise64(int fd, off64_t offset, off64_t bytes, int advice) noexcept {
  return advise_file(fd, offset, bytes, advice);
}
