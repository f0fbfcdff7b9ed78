// A program that knows nothing of ggml and opens a library that does: argv[1]. The plugin must come in all the same.
#include <dlfcn.h>
#include <stddef.h>
#include <stdio.h>

int main(int, char** argv) {
  void* handle = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  if (handle == nullptr) {
    printf("%s\n", dlerror());
    return 1;
  }
  using Count = size_t (*)();
  const auto reg = reinterpret_cast<Count>(dlsym(handle, "consumer_reg_count"));
  const auto dev = reinterpret_cast<Count>(dlsym(handle, "consumer_dev_count"));
  const size_t regs = reg();
  const size_t devs = dev();
  printf("%zu backends, %zu devices, wanted 2 and 2\n", regs, devs);
  return regs == 2 && devs == 2 ? 0 : 1;
}
