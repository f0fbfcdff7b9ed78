// A folder for scratch files that only this user may use; it goes with all that is in it.
//
// Threads: one. Ownership: the folder is the object's.
#pragma once

#include <string>

#include "base/result.h"

namespace artesian::bench {

class ScratchFolder {
 public:
  static Result<ScratchFolder> make(const std::string& parent);
  ScratchFolder(ScratchFolder&& other) noexcept;
  ScratchFolder& operator=(ScratchFolder&&) = delete;
  ~ScratchFolder();

  const std::string& path() const { return path_; }

 private:
  explicit ScratchFolder(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace artesian::bench
