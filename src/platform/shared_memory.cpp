#include "platform/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

namespace artesian {
namespace {

constexpr int wanted_seals = F_SEAL_SHRINK | F_SEAL_SEAL;

// Room for one descriptor beside a message.
union Beside {
  char bytes[CMSG_SPACE(sizeof(int))];
  cmsghdr align;
};

// The descriptor that came, or -1; there was room for no other.
int descriptor_of(msghdr& message) {
  int fd = -1;
  for (cmsghdr* part = CMSG_FIRSTHDR(&message); part != nullptr; part = CMSG_NXTHDR(&message, part)) {
    if (part->cmsg_level != SOL_SOCKET || part->cmsg_type != SCM_RIGHTS) continue;
    if (part->cmsg_len == CMSG_LEN(sizeof(int))) std::memcpy(&fd, CMSG_DATA(part), sizeof(fd));
  }
  return fd;
}

}  // namespace

Result<SharedMemory> SharedMemory::create(std::size_t bytes) {
  const int fd = ::memfd_create("artesian", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (fd < 0) return fail(Code::rejected, "the system gives no shared memory: {}", std::strerror(errno));
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0 || ::fcntl(fd, F_ADD_SEALS, wanted_seals) != 0) {
    const int error = errno;
    ::close(fd);
    return fail(Code::rejected, "{} bytes of shared memory are not to be had: {}", bytes, std::strerror(error));
  }
  return map(fd);
}

// Takes the descriptor, also when it fails.
Result<SharedMemory> SharedMemory::map(int fd) {
  SharedMemory memory(fd, {});
  struct stat facts{};
  if (::fstat(fd, &facts) != 0 || facts.st_size <= 0) return fail(Code::invalid, "shared memory of no size");
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0) {
    return fail(Code::invalid, "shared memory that its owner could make smaller is not taken");
  }
  const auto size = static_cast<std::size_t>(facts.st_size);
  void* at = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (at == MAP_FAILED) {
    return fail(Code::rejected, "{} bytes of shared memory cannot be mapped: {}", size, std::strerror(errno));
  }
  memory.bytes_ = {static_cast<std::byte*>(at), size};
  return memory;
}

Status SharedMemory::send(int socket, std::span<const std::byte> message) const {
  Beside beside{};
  iovec text{.iov_base = const_cast<std::byte*>(message.data()), .iov_len = message.size()};
  msghdr all{};
  all.msg_iov = &text;
  all.msg_iovlen = 1;
  all.msg_control = beside.bytes;
  all.msg_controllen = sizeof(beside.bytes);
  cmsghdr* part = CMSG_FIRSTHDR(&all);
  part->cmsg_level = SOL_SOCKET;
  part->cmsg_type = SCM_RIGHTS;
  part->cmsg_len = CMSG_LEN(sizeof(int));
  std::memcpy(CMSG_DATA(part), &fd_, sizeof(fd_));
  ssize_t sent = 0;
  do {
    sent = ::sendmsg(socket, &all, MSG_NOSIGNAL);
  } while (sent < 0 && errno == EINTR);
  if (sent < 0) return fail(Code::rejected, "shared memory cannot be sent: {}", std::strerror(errno));
  // A socket that was just connected has room for so few bytes.
  if (static_cast<std::size_t>(sent) != message.size()) return fail(Code::rejected, "shared memory was sent in part");
  return {};
}

Result<SharedMemory> SharedMemory::receive(int socket, std::span<std::byte> message) {
  Beside beside{};
  iovec text{.iov_base = message.data(), .iov_len = message.size()};
  msghdr all{};
  all.msg_iov = &text;
  all.msg_iovlen = 1;
  all.msg_control = beside.bytes;
  all.msg_controllen = CMSG_LEN(sizeof(int));  // not a byte more: the system would put a second one there
  ssize_t got = 0;
  do {
    got = ::recvmsg(socket, &all, MSG_CMSG_CLOEXEC | MSG_DONTWAIT);
  } while (got < 0 && errno == EINTR);
  if (got < 0) {
    const Code code = errno == EAGAIN || errno == EWOULDBLOCK ? Code::retry : Code::rejected;
    return fail(code, "shared memory cannot be received: {}", std::strerror(errno));
  }
  const int fd = descriptor_of(all);
  if (fd < 0) return fail(Code::invalid, "a greeting without shared memory");
  if ((all.msg_flags & MSG_CTRUNC) != 0) {
    ::close(fd);
    return fail(Code::invalid, "a greeting with more than one piece of shared memory");
  }
  auto memory = map(fd);
  if (static_cast<std::size_t>(got) != message.size()) return fail(Code::invalid, "a greeting of {} bytes", got);
  return memory;
}

SharedMemory::SharedMemory(SharedMemory&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), bytes_(std::exchange(other.bytes_, {})) {}

SharedMemory& SharedMemory::operator=(SharedMemory&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(bytes_, other.bytes_);
  return *this;
}

SharedMemory::~SharedMemory() {
  if (!bytes_.empty()) ::munmap(bytes_.data(), bytes_.size());
  if (fd_ >= 0) ::close(fd_);
}

}  // namespace artesian
