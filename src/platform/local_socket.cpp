#include "platform/local_socket.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

namespace artesian {
namespace {

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return fail(Code::invalid, "{}: is too long a name for a socket, {} bytes are possible", path,
                sizeof(address.sun_path) - 1);
  }
  std::ranges::copy(path, address.sun_path);
  return address;
}

std::unexpected<Error> failed(const std::string& path, const char* what) {
  const int error = errno;
  const Code code = error == ENOENT || error == ECONNREFUSED ? Code::not_found : Code::rejected;
  return fail(code, "{}: {}: {}", path, what, std::strerror(error));
}

int new_socket(int flags = 0) {
  return ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | flags, 0);
}

// Whether the descriptor is ready within that time.
bool ready(int fd, short events, Nanos patience) {
  pollfd one{.fd = fd, .events = events, .revents = 0};
  const auto whole = std::chrono::duration_cast<std::chrono::milliseconds>(patience).count();
  const int timeout = static_cast<int>(std::clamp<std::int64_t>(whole, 0, 1'000'000'000));
  int got = 0;
  do {
    got = ::poll(&one, 1, timeout);
  } while (got < 0 && errno == EINTR);
  return got > 0;
}

}  // namespace

Result<LocalSocket> LocalSocket::connect(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return fail(address.error());
  LocalSocket socket(new_socket(), path);
  if (socket.fd_ < 0) return failed(path, "no socket");
  if (::connect(socket.fd_, reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return failed(path, "nobody answers");
  }
  return socket;
}

LocalSocket::LocalSocket(LocalSocket&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::move(other.path_)), read_(std::move(other.read_)) {}

LocalSocket& LocalSocket::operator=(LocalSocket&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(path_, other.path_);
  std::swap(read_, other.read_);
  return *this;
}

LocalSocket::~LocalSocket() {
  if (fd_ >= 0) ::close(fd_);
}

Result<std::string> LocalSocket::read_line(std::size_t bytes_max, Nanos patience) {
  for (;;) {
    if (const auto end = read_.find('\n'); end != std::string::npos && end <= bytes_max) {
      std::string line = read_.substr(0, end);
      read_.erase(0, end + 1);
      return line;
    }
    if (read_.size() > bytes_max) return fail(Code::invalid, "{}: a line of more than {} bytes", path_, bytes_max);
    if (!ready(fd_, POLLIN, patience)) return fail(Code::retry, "{}: nothing comes", path_);
    char some[4096];
    const ssize_t got = ::recv(fd_, some, sizeof(some), 0);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) return failed(path_, "cannot be read");
    if (got == 0) return fail(Code::not_found, "{}: the other end has closed", path_);
    read_.append(some, static_cast<std::size_t>(got));
  }
}

Status LocalSocket::write(std::string_view bytes, Nanos patience) {
  while (!bytes.empty()) {
    if (!ready(fd_, POLLOUT, patience)) return fail(Code::retry, "{}: the other end takes nothing", path_);
    const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && (errno == EINTR || errno == EAGAIN)) continue;
    if (sent < 0) return failed(path_, "cannot be written");
    bytes.remove_prefix(static_cast<std::size_t>(sent));
  }
  return {};
}

Result<LocalListener> LocalListener::open(const std::string& path) {
  const auto address = address_of(path);
  if (!address) return fail(address.error());
  if (LocalSocket::connect(path)) return fail(Code::rejected, "{}: somebody else listens there", path);
  struct stat facts{};
  if (::lstat(path.c_str(), &facts) == 0 && S_ISSOCK(facts.st_mode)) ::unlink(path.c_str());  // of one that was killed
  // Several threads may be told of one that knocks; those that come too late must not wait for another.
  LocalListener listener(new_socket(SOCK_NONBLOCK), {});
  if (listener.fd_ < 0) return failed(path, "no socket");
  // Its mode is set before anybody can connect: it listens only afterwards.
  if (::bind(listener.fd_, reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0) {
    return failed(path, "cannot be made");
  }
  listener.path_ = path;
  if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0) return failed(path, "cannot be closed to others");
  constexpr int waiting = 16;
  if (::listen(listener.fd_, waiting) != 0) return failed(path, "cannot listen");
  return listener;
}

LocalListener::LocalListener(LocalListener&& other) noexcept
    : fd_(std::exchange(other.fd_, -1)), path_(std::exchange(other.path_, {})) {}

LocalListener::~LocalListener() {
  if (!path_.empty()) ::unlink(path_.c_str());
  if (fd_ >= 0) ::close(fd_);
}

Result<int> LocalListener::duplicate() const {
  const int fd = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (fd < 0) return failed(path_, "no second descriptor");
  return fd;
}

Result<std::optional<LocalSocket>> LocalListener::accept(const Event& stop) {
  for (;;) {
    pollfd both[2] = {{.fd = fd_, .events = POLLIN, .revents = 0}, {.fd = stop.fd(), .events = POLLIN, .revents = 0}};
    if (::poll(both, 2, -1) < 0 && errno != EINTR) return failed(path_, "cannot be waited for");
    if (both[1].revents != 0) return std::nullopt;
    if (both[0].revents == 0) continue;
    const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_CLOEXEC);
    if (fd >= 0) return LocalSocket(fd, path_);
    if (errno != EINTR && errno != ECONNABORTED && errno != EAGAIN) return failed(path_, "takes nobody");
  }
}

}  // namespace artesian
