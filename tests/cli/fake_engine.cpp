// A program like llama.cpp's: linked with a shared (stand-in) ggml, asks it for backends, says how many there are, and
// exits with its first argument.
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

extern "C" size_t ggml_backend_reg_count();

int main(int argc, char** argv) {
  printf("%zu backends\n", ggml_backend_reg_count());
  return argc > 1 ? atoi(argv[1]) : 0;
}
