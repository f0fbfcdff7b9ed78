// The private folder in which slot files lie while the server writes or reads them: in memory where that can be, empty
// between requests, gone with us. What a killed predecessor left behind is removed.
//
// Threads: the loop only. Ownership: removes the folder when it goes, if it made it.
#pragma once

#include <cstdint>
#include <string>

#include "base/result.h"

namespace artesian {

class Staging {
 public:
  // A folder of its own in `parent` (in memory: /dev/shm). No more than `bytes_max` lie in it.
  static Result<Staging> make(const std::string& parent, std::uint64_t bytes_max);
  // The one that a server that runs already was started with.
  static Result<Staging> use(const std::string& folder, std::uint64_t bytes_max);

  Staging(Staging&& other) noexcept;
  Staging& operator=(Staging&&) = delete;
  ~Staging();

  // A name that was not given out before, and the path of a file with that name.
  std::string next_name();
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  const std::string& folder() const { return folder_; }
  std::uint64_t bytes_max() const { return bytes_max_; }

 private:
  Staging(std::string folder, std::uint64_t bytes_max, bool own)
      : folder_(std::move(folder)), bytes_max_(bytes_max), own_(own) {}

  std::string folder_;
  std::uint64_t bytes_max_, names_ = 0;
  bool own_;
};

}  // namespace artesian
