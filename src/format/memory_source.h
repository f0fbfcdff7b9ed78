// Bytes in memory as a ByteSource; for tests, fuzzers and headers made on the fly. Owns its bytes.
#pragma once

#include <cstring>
#include <string>
#include <vector>

#include "format/gguf.h"

namespace artesian {

class MemorySource final : public ByteSource {
 public:
  MemorySource(std::string name, std::vector<std::byte> bytes) : name_(std::move(name)), bytes_(std::move(bytes)) {}

  const std::string& name() const override { return name_; }
  std::uint64_t size() const override { return bytes_.size(); }
  Status read(std::uint64_t offset, std::span<std::byte> out) override {
    if (out.size() > bytes_.size() || offset > bytes_.size() - out.size()) {
      return fail(Code::device_failed, "{}: offset {}: {} bytes lie outside of the {} there are", name_, offset,
                  out.size(), bytes_.size());
    }
    if (!out.empty()) std::memcpy(out.data(), bytes_.data() + offset, out.size());
    return {};
  }

 private:
  std::string name_;
  std::vector<std::byte> bytes_;
};

}  // namespace artesian
