#include "bench/scratch_folder.h"

#include <cstdlib>
#include <filesystem>
#include <utility>

namespace artesian::bench {

Result<ScratchFolder> ScratchFolder::make(const std::string& parent) {
  std::string pattern = parent + "/artesian-bench-XXXXXX";
  if (::mkdtemp(pattern.data()) == nullptr) return fail(Code::rejected, "{}: no folder can be made there", parent);
  return ScratchFolder(std::move(pattern));
}

ScratchFolder::ScratchFolder(ScratchFolder&& other) noexcept : path_(std::exchange(other.path_, {})) {}

ScratchFolder::~ScratchFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

}  // namespace artesian::bench
