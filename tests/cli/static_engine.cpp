// A program with (something like) ggml linked in.
#include <stdio.h>
#include <stdlib.h>

extern "C" __attribute__((noinline, used)) void* ggml_backend_init() {
  return nullptr;
}

int main() {
  const char* preload = getenv("LD_PRELOAD");
  printf("preload '%s'\n", preload != nullptr ? preload : "");
  return ggml_backend_init() == nullptr ? 5 : 6;
}
