// A stand-in for libggml-base: the registry functions that the shim stands in front of, with ggml's habits. Internal
// calls go through the exported names, as they do in the real one. FAKE_GGML_DL=1 makes it a build with loadable
// backends: none is registered until load_all.
#include <dlfcn.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT extern "C" __attribute__((visibility("default")))

EXPORT size_t ggml_backend_reg_count();
EXPORT size_t ggml_backend_dev_count();
EXPORT void* ggml_backend_reg_by_name(const char* name);
EXPORT void* ggml_backend_load(const char* path);

namespace {

constexpr size_t most = 16;

struct Registry {
  const char* names[most] = {};
  size_t count = 0;
  Registry() {
    if (getenv("FAKE_GGML_DL") == nullptr) add("CPU");
  }
  void add(const char* name) {
    if (count < most) names[count++] = name;
  }
};

Registry& registry() {
  static Registry the;
  return the;
}

}  // namespace

EXPORT size_t ggml_backend_reg_count() {
  return registry().count;
}

EXPORT size_t ggml_backend_dev_count() {
  return registry().count;
}

EXPORT void* ggml_backend_reg_by_name(const char* name) {
  for (size_t i = 0; i < ggml_backend_reg_count(); ++i) {
    if (strcmp(registry().names[i], name) == 0) return const_cast<char*>(registry().names[i]);
  }
  return nullptr;
}

EXPORT void* ggml_backend_load(const char* path) {
  void* handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) return nullptr;
  using Init = const char* (*)();
  const auto init = reinterpret_cast<Init>(dlsym(handle, "ggml_backend_init"));
  const char* name = init != nullptr ? init() : nullptr;
  if (name == nullptr) {
    dlclose(handle);
    return nullptr;
  }
  registry().add(name);
  return const_cast<char*>(name);
}

EXPORT void ggml_backend_load_all_from_path(const char*) {
  if (getenv("FAKE_GGML_DL") == nullptr) return;
  registry().add("BLAS");
  // Some backend asks while the others are not there yet: the plugin must not come in before the CPU backend.
  static_cast<void>(ggml_backend_reg_count());
  registry().add("CPU");
  if (const char* path = getenv("GGML_BACKEND_PATH"); path != nullptr) ggml_backend_load(path);
}

EXPORT void ggml_backend_load_all() {
  ggml_backend_load_all_from_path(nullptr);
}

// For the probes: the n-th registered name.
EXPORT const char* fake_ggml_name(size_t index) {
  return index < registry().count ? registry().names[index] : "";
}
