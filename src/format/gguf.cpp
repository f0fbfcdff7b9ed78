#include "format/gguf.h"

#include <bit>
#include <numeric>
#include <tuple>

#include "format/gguf_scanner.h"

namespace artesian {
namespace {

static_assert(std::endian::native == std::endian::little, "GGUF is read as it lies in memory");

// Bytes of one value of a fixed size; 0 for strings, arrays and unknown kinds.
std::uint64_t value_bytes(std::uint32_t kind) {
  switch (static_cast<GgufKind>(kind)) {
    case GgufKind::u8:
    case GgufKind::i8:
    case GgufKind::boolean:
      return 1;
    case GgufKind::u16:
    case GgufKind::i16:
      return 2;
    case GgufKind::u32:
    case GgufKind::i32:
    case GgufKind::f32:
      return 4;
    case GgufKind::u64:
    case GgufKind::i64:
    case GgufKind::f64:
      return 8;
    case GgufKind::string:
    case GgufKind::array:
      return 0;
  }
  return 0;
}

template <typename Stored, typename Kept>
Result<GgufValue> read_number(GgufScanner& scan, std::string_view what) {
  auto value = scan.number<Stored>(what);
  if (!value) return fail(std::move(value.error()));
  return GgufValue(static_cast<Kept>(*value));
}

// A value of a fixed size.
Result<GgufValue> read_scalar(GgufScanner& scan, std::uint32_t kind, std::string_view what) {
  switch (static_cast<GgufKind>(kind)) {
    case GgufKind::u8:
      return read_number<std::uint8_t, std::uint64_t>(scan, what);
    case GgufKind::i8:
      return read_number<std::int8_t, std::int64_t>(scan, what);
    case GgufKind::boolean: {  // any byte is possible in a file, not in a bool
      auto byte = scan.number<std::uint8_t>(what);
      if (!byte) return fail(std::move(byte.error()));
      return GgufValue(*byte != 0);
    }
    case GgufKind::u16:
      return read_number<std::uint16_t, std::uint64_t>(scan, what);
    case GgufKind::i16:
      return read_number<std::int16_t, std::int64_t>(scan, what);
    case GgufKind::u32:
      return read_number<std::uint32_t, std::uint64_t>(scan, what);
    case GgufKind::i32:
      return read_number<std::int32_t, std::int64_t>(scan, what);
    case GgufKind::f32:
      return read_number<float, double>(scan, what);
    case GgufKind::u64:
      return read_number<std::uint64_t, std::uint64_t>(scan, what);
    case GgufKind::i64:
      return read_number<std::int64_t, std::int64_t>(scan, what);
    case GgufKind::f64:
      return read_number<double, double>(scan, what);
    case GgufKind::string:
    case GgufKind::array:
      break;
  }
  return scan.broken(scan.offset(), "{} has the unknown value type {}", what, kind);
}

double as_double(const GgufValue& value) {
  if (const auto* u = std::get_if<std::uint64_t>(&value)) return static_cast<double>(*u);
  if (const auto* i = std::get_if<std::int64_t>(&value)) return static_cast<double>(*i);
  if (const auto* b = std::get_if<bool>(&value)) return *b ? 1.0 : 0.0;
  if (const auto* d = std::get_if<double>(&value)) return *d;
  return 0.0;
}

Result<GgufValue> read_strings(GgufScanner& scan, GgufArray array, std::string_view what) {
  if (array.count > gguf_limits::strings_kept_max) {
    if (auto skipped = scan.skip_strings(array.count, what); !skipped) return fail(std::move(skipped.error()));
    return GgufValue(std::move(array));
  }
  for (std::uint64_t i = 0; i < array.count; ++i) {
    auto text = scan.string(gguf_limits::string_bytes_max, what);
    if (!text) return fail(std::move(text.error()));
    array.strings.push_back(std::move(*text));
  }
  return GgufValue(std::move(array));
}

Result<GgufValue> read_array(GgufScanner& scan, std::string_view what) {
  const std::uint64_t at = scan.offset();
  GgufArray array;
  auto kind = scan.number<std::uint32_t>(what);
  if (!kind) return fail(std::move(kind.error()));
  auto count = scan.number<std::uint64_t>(what);
  if (!count) return fail(std::move(count.error()));
  array.element_type = *kind;
  array.count = *count;

  if (*kind == static_cast<std::uint32_t>(GgufKind::array)) return scan.broken(at, "{} is an array of arrays", what);
  const bool strings = *kind == static_cast<std::uint32_t>(GgufKind::string);
  const std::uint64_t element_bytes = strings ? 8 : value_bytes(*kind);  // a string has at least its length
  if (element_bytes == 0) return scan.broken(at, "{} is an array of the unknown value type {}", what, *kind);
  if (*count > scan.remaining() / element_bytes) {
    return scan.broken(at, "{} claims {} elements, more than the rest of the file can hold", what, *count);
  }
  if (strings) return read_strings(scan, std::move(array), what);
  if (*count > gguf_limits::numbers_kept_max) {
    if (auto skipped = scan.skip(*count * element_bytes, what); !skipped) return fail(std::move(skipped.error()));
    return GgufValue(std::move(array));
  }
  for (std::uint64_t i = 0; i < *count; ++i) {
    auto value = read_scalar(scan, *kind, what);
    if (!value) return fail(std::move(value.error()));
    array.numbers.push_back(as_double(*value));
  }
  return GgufValue(std::move(array));
}

Status read_entry(GgufScanner& scan, std::uint64_t index, GgufFile& file) {
  const std::uint64_t at = scan.offset();
  auto key = scan.string(gguf_limits::key_bytes_max, fmt::format("the key of metadata entry {}", index));
  if (!key) return fail(std::move(key.error()));
  const std::string what = fmt::format("metadata '{}'", printable(*key));
  if (key->empty()) return scan.broken(at, "metadata entry {} has no key", index);
  if (file.metadata.contains(*key)) return scan.broken(at, "{} is there twice", what);

  auto kind = scan.number<std::uint32_t>(what);
  if (!kind) return fail(std::move(kind.error()));
  Result<GgufValue> value;
  if (*kind == static_cast<std::uint32_t>(GgufKind::array)) {
    value = read_array(scan, what);
  } else if (*kind == static_cast<std::uint32_t>(GgufKind::string)) {
    auto text = scan.string(gguf_limits::string_bytes_max, what);
    if (!text) return fail(std::move(text.error()));
    value = GgufValue(std::move(*text));
  } else {
    value = read_scalar(scan, *kind, what);
  }
  if (!value) return fail(std::move(value.error()));

  if (*key == "general.alignment") {
    const auto* alignment = std::get_if<std::uint64_t>(&*value);
    if (alignment == nullptr || !std::has_single_bit(*alignment) || *alignment > gguf_limits::alignment_max) {
      return scan.broken(at, "general.alignment is not a power of two up to {}", gguf_limits::alignment_max);
    }
    file.alignment = static_cast<std::uint32_t>(*alignment);
  }
  file.entries.push_back({*key, at, scan.offset() - at});
  file.metadata.emplace(std::move(*key), std::move(*value));
  return {};
}

// The tensor's size in bytes from its shape; refuses what overflows, is empty or is not made of whole blocks.
Result<std::uint64_t> shape_bytes(const GgufScanner& scan, std::uint64_t at, std::string_view what,
                                  const GgufTensor& tensor) {
  const GgmlType* type = find_ggml_type(tensor.type);
  if (type == nullptr) return scan.broken(at, "{} has the unknown type {}", what, tensor.type);
  std::uint64_t elements = 1;
  for (std::uint64_t n : tensor.ne) {
    if (n == 0) return scan.broken(at, "{} has a dimension of 0", what);
    if (__builtin_mul_overflow(elements, n, &elements) || elements > INT64_MAX / 8) {
      return scan.broken(at, "{} has a shape that overflows: {}x{}x{}x{}", what, tensor.ne[0], tensor.ne[1],
                         tensor.ne[2], tensor.ne[3]);
    }
  }
  if (tensor.ne[0] % type->block_elements != 0) {
    return scan.broken(at, "{} has rows of {} elements, which is not a multiple of the {} of a {} block", what,
                       tensor.ne[0], type->block_elements, type->name);
  }
  // Blocks are at most 8 bytes an element (F64), so this cannot overflow.
  return elements / type->block_elements * type->block_bytes;
}

Status read_tensor(GgufScanner& scan, std::uint64_t index, GgufFile& file) {
  const std::uint64_t at = scan.offset();
  auto name = scan.string(gguf_limits::tensor_name_bytes_max, fmt::format("the name of tensor {}", index));
  if (!name) return fail(std::move(name.error()));
  const std::string what = fmt::format("tensor '{}'", printable(*name));
  if (name->empty()) return scan.broken(at, "tensor {} has no name", index);

  auto dimensions = scan.number<std::uint32_t>(what);
  if (!dimensions) return fail(std::move(dimensions.error()));
  GgufTensor tensor;
  if (*dimensions == 0 || *dimensions > tensor.ne.size()) {
    return scan.broken(at, "{} has {} dimensions where 1 to {} are possible", what, *dimensions, tensor.ne.size());
  }
  for (std::uint32_t i = 0; i < *dimensions; ++i) {
    auto n = scan.number<std::uint64_t>(what);
    if (!n) return fail(std::move(n.error()));
    tensor.ne[i] = *n;
  }
  auto type = scan.number<std::uint32_t>(what);
  if (!type) return fail(std::move(type.error()));
  auto offset = scan.number<std::uint64_t>(what);
  if (!offset) return fail(std::move(offset.error()));
  tensor.type = *type;
  tensor.offset = *offset;  // still counted from data_offset, see place_tensors
  auto bytes = shape_bytes(scan, at, what, tensor);
  if (!bytes) return fail(std::move(bytes.error()));
  tensor.bytes = *bytes;
  tensor.name = std::move(*name);
  file.tensors.push_back(std::move(tensor));
  return {};
}

// Counts tensors' offsets from the start of the file and checks that each lies inside it.
Status place_tensors(const GgufScanner& scan, const std::vector<std::uint64_t>& entry_offsets, GgufFile& file) {
  for (std::size_t i = 0; i < file.tensors.size(); ++i) {
    GgufTensor& tensor = file.tensors[i];
    if (tensor.offset % file.alignment != 0) {
      return scan.broken(entry_offsets[i], "tensor '{}' starts at {}, which is not a multiple of the alignment {}",
                         printable(tensor.name), tensor.offset, file.alignment);
    }
    std::uint64_t start = 0;
    std::uint64_t end = 0;
    if (__builtin_add_overflow(tensor.offset, file.data_offset, &start) ||
        __builtin_add_overflow(start, tensor.bytes, &end) || end > file.file_bytes) {
      return scan.broken(entry_offsets[i], "tensor '{}' of {} bytes at {} + {} goes past the end of the file at {}",
                         printable(tensor.name), tensor.bytes, file.data_offset, tensor.offset, file.file_bytes);
    }
    tensor.offset = start;
  }
  return {};
}

Status refuse_duplicates(const GgufScanner& scan, const std::vector<std::uint64_t>& entry_offsets,
                         const GgufFile& file) {
  std::vector<std::uint32_t> order(file.tensors.size());
  std::iota(order.begin(), order.end(), 0U);
  std::ranges::sort(order, [&](std::uint32_t a, std::uint32_t b) {
    return std::tie(file.tensors[a].name, a) < std::tie(file.tensors[b].name, b);
  });
  for (std::size_t i = 1; i < order.size(); ++i) {
    const std::string& name = file.tensors[order[i]].name;
    if (name != file.tensors[order[i - 1]].name) continue;
    return scan.broken(entry_offsets[order[i]], "tensor '{}' is there twice", printable(name));
  }
  return {};
}

Status read_preamble(GgufScanner& scan, std::uint64_t& tensors, std::uint64_t& entries, GgufFile& file) {
  auto magic = scan.number<std::array<char, 4>>("the magic number");
  if (!magic || *magic != std::array{'G', 'G', 'U', 'F'}) {
    // A file too short for a magic number is no GGUF file either; a device's error stays what it is.
    if (!magic && magic.error().code != Code::corrupt) return fail(std::move(magic.error()));
    return fail(Code::invalid, "{}: offset 0: this is not a GGUF file", file.path);
  }
  auto version = scan.number<std::uint32_t>("the version");
  if (!version) return fail(std::move(version.error()));
  if ((*version & 0xffffU) == 0) {
    return fail(Code::invalid, "{}: offset 4: the file is big-endian or has no version, which is not supported",
                file.path);
  }
  if (*version != 2 && *version != 3) {
    return fail(Code::invalid, "{}: offset 4: GGUF version {} is not supported (2 and 3 are)", file.path, *version);
  }
  file.version = *version;
  auto tensor_count = scan.number<std::uint64_t>("the number of tensors");
  if (!tensor_count) return fail(std::move(tensor_count.error()));
  auto entry_count = scan.number<std::uint64_t>("the number of metadata entries");
  if (!entry_count) return fail(std::move(entry_count.error()));
  // The least that one takes: a length, a character, a type and a value; for a tensor one dimension and an offset, too.
  constexpr std::uint64_t entry_bytes_min = 8 + 1 + 4 + 1;
  constexpr std::uint64_t tensor_bytes_min = 8 + 1 + 4 + 8 + 4 + 8;
  if (*tensor_count > std::min(gguf_limits::tensor_count_max, scan.remaining() / tensor_bytes_min)) {
    return scan.broken(8, "the file claims {} tensors, more than it can hold", *tensor_count);
  }
  if (*entry_count > std::min(gguf_limits::metadata_count_max, scan.remaining() / entry_bytes_min)) {
    return scan.broken(16, "the file claims {} metadata entries, more than it can hold", *entry_count);
  }
  tensors = *tensor_count;
  entries = *entry_count;
  return {};
}

}  // namespace

std::uint64_t GgufTensor::row_bytes() const {
  const GgmlType* t = find_ggml_type(type);
  return t == nullptr ? 0 : ne[0] / t->block_elements * t->block_bytes;
}

std::uint64_t GgufTensor::matrix_bytes() const {
  return row_bytes() * ne[1];
}

Result<GgufFile> GgufFile::parse(ByteSource& source) {
  GgufScanner scan(source);
  GgufFile file;
  file.path = source.name();
  file.file_bytes = source.size();
  std::uint64_t tensor_count = 0;
  std::uint64_t entry_count = 0;
  if (auto read = read_preamble(scan, tensor_count, entry_count, file); !read) return fail(std::move(read.error()));
  for (std::uint64_t i = 0; i < entry_count; ++i) {
    if (auto read = read_entry(scan, i, file); !read) return fail(std::move(read.error()));
  }
  std::vector<std::uint64_t> entry_offsets;
  for (std::uint64_t i = 0; i < tensor_count; ++i) {
    entry_offsets.push_back(scan.offset());
    if (auto read = read_tensor(scan, i, file); !read) return fail(std::move(read.error()));
  }
  file.data_offset = (scan.offset() + file.alignment - 1) / file.alignment * file.alignment;
  if (auto placed = place_tensors(scan, entry_offsets, file); !placed) return fail(std::move(placed.error()));
  if (auto unique = refuse_duplicates(scan, entry_offsets, file); !unique) return fail(std::move(unique.error()));
  return file;
}

std::optional<std::uint64_t> GgufFile::find_uint(std::string_view key) const {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  if (const auto* u = std::get_if<std::uint64_t>(&found->second)) return *u;
  if (const auto* i = std::get_if<std::int64_t>(&found->second); i != nullptr && *i >= 0)
    return static_cast<std::uint64_t>(*i);
  return std::nullopt;
}

std::optional<std::string> GgufFile::find_string(std::string_view key) const {
  const auto found = metadata.find(key);
  if (found == metadata.end()) return std::nullopt;
  if (const auto* text = std::get_if<std::string>(&found->second)) return *text;
  return std::nullopt;
}

}  // namespace artesian
