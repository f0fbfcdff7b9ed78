// A library that uses ggml and is itself opened by handle, as Python opens libllama.
#include <stddef.h>

extern "C" size_t ggml_backend_reg_count();
extern "C" size_t ggml_backend_dev_count();

extern "C" __attribute__((visibility("default"))) size_t consumer_reg_count() {
  const size_t count = ggml_backend_reg_count();
  return count;
}

extern "C" __attribute__((visibility("default"))) size_t consumer_dev_count() {
  const size_t count = ggml_backend_dev_count();
  return count;
}
