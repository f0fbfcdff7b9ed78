// Writes GGUF: metadata and a tensor table in memory, tensor data streamed by a callback, shards by number of tensors
// or bytes. For the model generator and for tests; nothing in the product writes models. Not thread safe.
#pragma once

#include <concepts>
#include <functional>
#include <initializer_list>

#include "format/gguf.h"

namespace artesian {

// Where bytes go, in order.
class ByteSink {
 public:
  virtual ~ByteSink() = default;
  virtual Status write(std::span<const std::byte> bytes) = 0;
};
using OpenSink = std::function<Result<std::unique_ptr<ByteSink>>(const std::string& path)>;

// Little-endian bytes as GGUF lays them out; also good for broken files in tests.
class GgufBytes {
 public:
  template <typename T>
    requires std::is_arithmetic_v<T>
  GgufBytes& number(T value) {
    return raw(std::as_bytes(std::span(&value, 1)));
  }
  GgufBytes& kind(GgufKind kind) { return number(static_cast<std::uint32_t>(kind)); }
  GgufBytes& string(std::string_view text) {
    number<std::uint64_t>(text.size());
    return raw(std::as_bytes(std::span(text)));
  }
  GgufBytes& raw(std::span<const std::byte> bytes) {
    bytes_.insert(bytes_.end(), bytes.begin(), bytes.end());
    return *this;
  }
  GgufBytes& pad(std::uint64_t alignment) {
    bytes_.resize((bytes_.size() + alignment - 1) / alignment * alignment);
    return *this;
  }
  const std::vector<std::byte>& bytes() const { return bytes_; }
  std::vector<std::byte> take() { return std::move(bytes_); }

 private:
  std::vector<std::byte> bytes_;
};

// What a model is to contain.
class GgufPlan {
 public:
  void add_u16(std::string_view key, std::uint16_t value) { add_number(key, GgufKind::u16, value); }
  void add_u32(std::string_view key, std::uint32_t value) { add_number(key, GgufKind::u32, value); }
  void add_i32(std::string_view key, std::int32_t value) { add_number(key, GgufKind::i32, value); }
  void add_f32(std::string_view key, float value) { add_number(key, GgufKind::f32, value); }
  void add_bool(std::string_view key, bool value) {
    add_number(key, GgufKind::boolean, static_cast<std::uint8_t>(value));
  }
  void add_string(std::string_view key, std::string_view value) { entry(key, GgufKind::string).string(value); }
  void add_strings(std::string_view key, std::span<const std::string> values);
  void add_i32s(std::string_view key, std::span<const std::int32_t> values);
  void add_raw(std::span<const std::byte> whole_entry) {  // key, type and value as in another file
    metadata_.raw(whole_entry);
    ++entries_;
  }
  // `type` must be known and ne[0] whole blocks of it (a bug otherwise).
  void add_tensor(std::string_view name, std::uint32_t type, std::initializer_list<std::uint64_t> ne);

  std::uint32_t alignment = 32;  // other values are written down as general.alignment

  const std::vector<GgufTensor>& tensors() const { return tensors_; }
  std::uint64_t tensor_bytes() const;

  // The header of a file with these of the tensors, up to the start of the data. A shard's place in its model is
  // written when shard_count > 1; only shard 0 carries the metadata, as llama.cpp has it.
  std::vector<std::byte> header(std::size_t first_tensor, std::size_t tensor_count, std::uint64_t shard = 0,
                                std::uint64_t shard_count = 1) const;

 private:
  struct Shape {
    std::uint32_t dimensions;
  };

  GgufBytes& entry(std::string_view key, GgufKind kind);
  template <typename T>
  void add_number(std::string_view key, GgufKind kind, T value) {
    entry(key, kind).number(value);
  }

  GgufBytes metadata_;
  std::uint64_t entries_ = 0;
  std::vector<GgufTensor> tensors_;
  std::vector<Shape> shapes_;
};

// Exactly `shards` files with about as many tensors each; or files of at most so many tensors or bytes (the first
// tensor of a file is always taken). 0: no limit. One file without.
struct GgufShardLimit {
  std::uint64_t shards = 0;  // at most the number of tensors
  std::uint64_t tensors_max = 0;
  std::uint64_t bytes_max = 0;
};

// Writes exactly tensor.bytes to the sink.
using FillTensor = std::function<Status(const GgufTensor& tensor, ByteSink& sink)>;

// Writes `path`, or prefix-00001-of-0000N.gguf where `path` is prefix.gguf and the limit asks for more than one file.
// Returns the paths. Whatever open, sink or fill report ends it; Code::invalid when fill wrote another number of bytes.
Result<std::vector<std::string>> write_gguf(const GgufPlan& plan, const GgufShardLimit& limit, const std::string& path,
                                            const OpenSink& open, const FillTensor& fill);

}  // namespace artesian
