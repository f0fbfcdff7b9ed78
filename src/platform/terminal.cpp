#include "platform/terminal.h"

#include <unistd.h>

namespace artesian {

bool is_terminal(std::FILE* stream) {
  return ::isatty(::fileno(stream)) != 0;
}

}  // namespace artesian
