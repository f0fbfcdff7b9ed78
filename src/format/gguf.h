// GGUF, bytes in, facts out: the header, metadata and tensor table of one file, and a model made of its shards. Files
// are parsed as hostile: every count, length, offset and product is checked against the file before it is used. The
// format: https://github.com/ggml-org/ggml/blob/master/docs/gguf.md
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "base/result.h"

namespace artesian {

// Where bytes come from: a file, memory, a faulty one in tests. read() fills all of `out` or fails.
class ByteSource {
 public:
  virtual ~ByteSource() = default;
  virtual const std::string& name() const = 0;  // for messages
  virtual std::uint64_t size() const = 0;
  virtual Status read(std::uint64_t offset, std::span<std::byte> out) = 0;
};

// ggml's tensor type number with its block geometry; `known` types only.
struct GgmlType {
  std::uint32_t id = 0;
  std::string_view name;         // "Q8_0"
  std::uint32_t block_elements;  // elements in a block
  std::uint32_t block_bytes;
};
const GgmlType* find_ggml_type(std::uint32_t id);
const GgmlType* find_ggml_type(std::string_view name);  // as above, any case
std::span<const GgmlType> ggml_types();

struct GgufTensor {
  std::string name;
  std::uint32_t type = 0;                       // ggml type number
  std::array<std::uint64_t, 4> ne{1, 1, 1, 1};  // elements; ne[0] is the row length, ne[2] the experts of a 3-D one
  std::uint32_t file = 0;                       // which shard
  std::uint64_t offset = 0;                     // bytes from the start of that shard's file
  std::uint64_t bytes = 0;

  std::uint64_t row_bytes() const;     // nb[1]
  std::uint64_t matrix_bytes() const;  // nb[2], one expert of a 3-D tensor
};

struct GgufArray {
  std::uint32_t element_type = 0;  // GGUF value type number
  std::uint64_t count = 0;
  std::vector<std::string> strings;  // if of strings and kept
  std::vector<double> numbers;       // if of numbers and kept (arrays above a limit are skipped, count is right)
};
// GGUF value type numbers, as they stand in files.
enum class GgufKind : std::uint32_t {
  u8 = 0,
  i8 = 1,
  u16 = 2,
  i16 = 3,
  u32 = 4,
  i32 = 5,
  f32 = 6,
  boolean = 7,
  string = 8,
  array = 9,
  u64 = 10,
  i64 = 11,
  f64 = 12,
};
using GgufValue = std::variant<std::uint64_t, std::int64_t, double, bool, std::string, GgufArray>;

// Where one metadata entry (key, type and value) stands in its file, so that it can be copied without understanding it.
struct GgufEntry {
  std::string key;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// Limits of the parser. What passes them is refused (kept_max: skipped), so that a hostile file costs neither memory
// nor time beyond a small multiple of its header.
namespace gguf_limits {
constexpr std::uint64_t header_bytes_max = 256ULL << 20;
constexpr std::uint64_t string_bytes_max = 64ULL << 20;
constexpr std::uint64_t key_bytes_max = 65535;
constexpr std::uint64_t tensor_name_bytes_max = 63;  // what ggml can hold
constexpr std::uint64_t metadata_count_max = 1ULL << 16;
constexpr std::uint64_t tensor_count_max = 1ULL << 20;
constexpr std::uint64_t strings_kept_max = 1ULL << 20;  // in one array; a vocabulary of 256k and its merges fit
constexpr std::uint64_t numbers_kept_max = 1ULL << 16;
constexpr std::uint64_t alignment_max = 1ULL << 30;
}  // namespace gguf_limits

// One file.
struct GgufFile {
  std::string path;
  std::uint32_t version = 0;
  std::uint64_t file_bytes = 0;
  std::uint64_t data_offset = 0;  // where tensor data starts
  std::uint32_t alignment = 32;
  std::map<std::string, GgufValue, std::less<>> metadata;
  std::vector<GgufEntry> entries;  // of the metadata, in file order
  std::vector<GgufTensor> tensors;

  // Code::invalid: not a GGUF file or a version that is not known; Code::corrupt: broken; or the source's own error.
  static Result<GgufFile> parse(ByteSource& source);

  std::optional<std::uint64_t> find_uint(std::string_view key) const;
  std::optional<std::string> find_string(std::string_view key) const;
};

}  // namespace artesian
