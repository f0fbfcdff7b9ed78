#include "platform/random.h"

#include <sys/random.h>

#include <cerrno>
#include <cstring>

namespace artesian {

Status random_bytes(std::span<std::byte> out) {
  while (!out.empty()) {
    const ssize_t got = ::getrandom(out.data(), out.size(), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return fail(Code::device_failed, "the system has no random bytes: {}", std::strerror(errno));
    out = out.subspan(static_cast<std::size_t>(got));
  }
  return {};
}

}  // namespace artesian
