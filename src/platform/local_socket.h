// Streams between processes of one machine, by a socket in the file system that its owner alone may use.
//
// Threads: a LocalSocket belongs to one thread at a time; accept() from any. Ownership: descriptors go with the
// objects; the listener's name in the file system, too. Units: bytes. Errors name the path and say the system's own
// words.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/result.h"
#include "platform/event.h"

namespace artesian {

class LocalSocket {
 public:
  // not_found if nobody listens there.
  static Result<LocalSocket> connect(const std::string& path);
  LocalSocket(LocalSocket&& other) noexcept;
  LocalSocket& operator=(LocalSocket&& other) noexcept;
  ~LocalSocket();

  // The next line, without its end. not_found where the other end has closed, retry when `patience` has passed, invalid
  // for a line of more than `bytes_max`.
  Result<std::string> read_line(std::size_t bytes_max, Nanos patience);
  // All of it, or an error; retry if the other end takes nothing for `patience`.
  Status write(std::string_view bytes, Nanos patience);

 private:
  friend class LocalListener;
  LocalSocket(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_ = -1;
  std::string path_;
  std::string read_;  // and not yet given out
};

class LocalListener {
 public:
  // A name that is there is taken over if nobody listens behind it; rejected if somebody does.
  static Result<LocalListener> open(const std::string& path);
  LocalListener(LocalListener&& other) noexcept;
  LocalListener& operator=(LocalListener&&) = delete;
  ~LocalListener();

  // Nothing once `stop` is set.
  Result<std::optional<LocalSocket>> accept(const Event& stop);
  // A descriptor of its own, for a loop that accepts by itself; the caller's.
  Result<int> duplicate() const;

 private:
  LocalListener(int fd, std::string path) : fd_(fd), path_(std::move(path)) {}

  int fd_ = -1;
  std::string path_;
};

}  // namespace artesian
