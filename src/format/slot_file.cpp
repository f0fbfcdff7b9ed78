#include "format/slot_file.h"

#include <algorithm>
#include <cassert>
#include <cstring>

#include "base/little_endian.h"

namespace artesian {
namespace {

constexpr std::uint32_t magic = 0x67677371;  // "ggsq" as a number
constexpr std::uint32_t version_min = 3, version_max = 4;
constexpr std::uint32_t token_format = 1;
constexpr Token token_marker = -1;
constexpr std::uint64_t row_bytes_max = 1ULL << 24;
constexpr std::uint32_t arrays_max = 4096, streams_max = 4096, sequences_max = 1U << 16;

class Cursor {
 public:
  Cursor(std::span<const std::byte> bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  template <typename T>
  Status take(T& value) {
    if (left() < sizeof(T)) return cut_short();
    value = load_le<T>(bytes_, at_);
    at_ += sizeof(T);
    return {};
  }
  Status skip(std::uint64_t bytes) {
    if (left() < bytes) return cut_short();
    at_ += bytes;
    return {};
  }
  std::uint64_t at() const { return at_; }
  std::uint64_t left() const { return bytes_.size() - at_; }
  std::unexpected<Error> corrupt(std::string_view what) const {
    return fail(Code::corrupt, "{}: offset {}: {}", name_, at_, what);
  }
  std::unexpected<Error> unknown(std::string_view what) const {
    return fail(Code::rejected, "{}: offset {}: {}, which is a layout that is not known here", name_, at_, what);
  }
  std::unexpected<Error> cut_short() const { return corrupt("the slot file ends too early"); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& name_;
  std::uint64_t at_ = 0;
};

Status read_head(Cursor& in, SlotFile& file) {
  std::uint32_t number = 0, words = 0;
  if (auto ok = in.take(number); !ok) return ok;
  if (number != magic) return in.unknown(fmt::format("the magic is {:08x}", number));
  if (auto ok = in.take(file.layout.version); !ok) return ok;
  if (file.layout.version < version_min || file.layout.version > version_max) {
    return in.unknown(fmt::format("the version is {}", file.layout.version));
  }
  if (auto ok = in.take(words); !ok) return ok;
  if (words > in.left() / sizeof(Token)) return in.cut_short();
  std::vector<Token> packed(words);
  for (Token& word : packed) {
    if (auto ok = in.take(word); !ok) return ok;
  }
  file.layout.marked_tokens = words > 0 && packed[0] == token_marker;
  if (!file.layout.marked_tokens) {
    file.tokens = std::move(packed);
  } else {
    // Marker, format, count, ids, number of media.
    if (words < 4 || packed[1] != token_format) return in.unknown("the tokens are in another form");
    const auto count = static_cast<std::uint32_t>(packed[2]);
    if (count > words - 4) return in.corrupt("there are fewer tokens than the file says");
    if (packed[3 + std::size_t{count}] != 0) return in.unknown("there are media among the tokens");
    if (count != words - 4) return in.corrupt("there is more than the tokens");
    file.tokens.assign(packed.begin() + 3, packed.begin() + 3 + count);
  }
  if (std::ranges::any_of(file.tokens, [](Token token) { return token < 0; })) {
    return in.corrupt("a token is negative");
  }
  return {};
}

// The cells of the sequence: fills in which row each token has, and cuts off tokens that have none.
Status read_cells(Cursor& in, std::uint32_t count, SlotFile& file) {
  constexpr std::uint64_t cell_bytes = 12;
  if (count > in.left() / cell_bytes) return in.cut_short();
  std::vector<std::uint32_t> row_of(count, count);
  std::uint32_t sequence = 0;
  bool in_order = true;
  for (std::uint32_t row = 0; row < count; ++row) {
    std::int32_t position = 0;
    std::uint32_t sequences = 0, id = 0;
    if (auto ok = in.take(position); !ok) return ok;
    if (auto ok = in.take(sequences); !ok) return ok;
    if (sequences != 1) return in.unknown(fmt::format("a cell has {} sequences", sequences));
    if (auto ok = in.take(id); !ok) return ok;
    if (id >= sequences_max || (row > 0 && id != sequence)) return in.unknown("cells are of several sequences");
    sequence = id;
    if (position < 0 || static_cast<std::uint32_t>(position) >= count || row_of[position] != count) {
      return in.unknown(fmt::format("position {} does not fit {} cells in a row", position, count));
    }
    row_of[position] = row;
    in_order = in_order && static_cast<std::uint32_t>(position) == row;
  }
  if (file.tokens.size() > count) file.tokens.resize(count);
  row_of.resize(file.tokens.size());
  if (!in_order) file.rows = std::move(row_of);
  return {};
}

Status read_array(Cursor& in, std::uint32_t rows, std::vector<SlotArray>& arrays, SlotFile& file) {
  SlotArray array;
  if (auto ok = in.take(array.type); !ok) return ok;
  if (auto ok = in.take(array.row_bytes); !ok) return ok;
  if (array.type < 0 || array.row_bytes == 0 || array.row_bytes > row_bytes_max) {
    return in.unknown(fmt::format("an array of type {} has rows of {} bytes", array.type, array.row_bytes));
  }
  arrays.push_back(array);
  file.arrays.push_back(in.at());
  return in.skip(rows * array.row_bytes);
}

Status read_stream(Cursor& in, std::uint32_t cells, std::uint32_t streams_behind, SlotFile& file) {
  if (auto ok = read_cells(in, cells, file); !ok) return ok;
  std::uint32_t transposed = 0, layers = 0;
  if (auto ok = in.take(transposed); !ok) return ok;
  if (transposed != 0) return in.unknown("values are transposed (no flash attention)");
  if (auto ok = in.take(layers); !ok) return ok;
  if (layers == 0 || layers > arrays_max) return in.unknown(fmt::format("there are {} layers", layers));
  if (file.layout.version >= 4) {
    if (auto ok = in.take(file.layout.rotation_keys); !ok) return ok;
    if (auto ok = in.take(file.layout.rotation_values); !ok) return ok;
  }
  for (std::uint32_t layer = 0; layer < layers; ++layer) {
    if (auto ok = read_array(in, cells, file.layout.keys, file); !ok) return ok;
  }
  // Some models have no values of their own in some layers or in any; the file does not say how many there are, but
  // only the counts of the streams behind it may be left.
  const std::uint64_t behind = sizeof(std::uint32_t) * streams_behind;
  while (in.left() > behind) {
    if (file.layout.values.size() == layers) return in.unknown("there is more than one cache");
    if (auto ok = read_array(in, cells, file.layout.values, file); !ok) return ok;
  }
  return {};
}

template <typename T>
void put(std::span<std::byte> out, std::uint64_t& at, const T& value) {
  store_le(out, at, value);
  at += sizeof value;
}

const SlotArray& array_at(const SlotLayout& layout, std::size_t index) {
  return index < layout.keys.size() ? layout.keys[index] : layout.values[index - layout.keys.size()];
}

}  // namespace

std::uint64_t SlotLayout::token_bytes() const {
  std::uint64_t bytes = 0;
  for (const auto& array : keys) bytes += array.row_bytes;
  for (const auto& array : values) bytes += array.row_bytes;
  return bytes;
}

std::string SlotLayout::text() const {
  std::string text = fmt::format("llama.cpp slot v{} rot {} {}", version, rotation_keys, rotation_values);
  const auto add = [&text](char name, const std::vector<SlotArray>& arrays) {
    for (std::size_t i = 0; i < arrays.size();) {
      std::size_t end = i + 1;
      while (end < arrays.size() && arrays[end] == arrays[i]) ++end;
      text += fmt::format(" {}{}x{}:{}", name, end - i, arrays[i].type, arrays[i].row_bytes);
      i = end;
    }
  };
  add('k', keys);
  add('v', values);
  return text;
}

Result<SlotFile> parse_slot_file(std::span<const std::byte> bytes, const std::string& name) {
  SlotFile file;
  Cursor in(bytes, name);
  if (auto ok = read_head(in, file); !ok) return fail(std::move(ok.error()));
  if (auto ok = in.take(file.streams); !ok) return fail(std::move(ok.error()));
  if (file.streams == 0 || file.streams > streams_max) {
    return in.unknown(fmt::format("there are {} streams", file.streams));
  }
  bool filled = false;
  for (std::uint32_t stream = 0; stream < file.streams; ++stream) {
    std::uint32_t cells = 0;
    if (auto ok = in.take(cells); !ok) return fail(std::move(ok.error()));
    if (cells == 0) continue;
    if (filled) return in.unknown("several streams have cells");
    filled = true;
    if (auto ok = read_stream(in, cells, file.streams - stream - 1, file); !ok) return fail(std::move(ok.error()));
  }
  if (!filled) file.tokens.clear();
  if (in.left() > 0) return in.unknown("there is more than one cache");
  return file;
}

std::vector<std::span<const std::byte>> block_pieces(const SlotFile& file, std::span<const std::byte> bytes,
                                                     std::size_t first, std::size_t count) {
  assert(first + count <= file.tokens.size());
  const auto row = [&](std::size_t token) { return file.rows.empty() ? token : file.rows[token]; };
  std::vector<std::span<const std::byte>> pieces;
  for (std::size_t index = 0; index < file.arrays.size(); ++index) {
    const std::uint64_t row_bytes = array_at(file.layout, index).row_bytes;
    for (std::size_t token = first; token < first + count;) {
      std::size_t end = token + 1;
      while (end < first + count && row(end) == row(end - 1) + 1) ++end;
      pieces.push_back(bytes.subspan(file.arrays[index] + row(token) * row_bytes, (end - token) * row_bytes));
      token = end;
    }
  }
  return pieces;
}

std::uint64_t slot_file_bytes(const SlotLayout& layout, std::uint32_t streams, std::size_t tokens) {
  const std::uint64_t words = 3 + (layout.marked_tokens ? 4 : 0) + tokens  // head and tokens
                              + 1 + std::uint64_t{streams}                 // streams and the cells of each
                              + 3 * tokens                                 // cells
                              + (layout.version >= 4 ? 4 : 2);
  const std::uint64_t arrays = layout.keys.size() + layout.values.size();
  return 4 * words + 12 * arrays + tokens * layout.token_bytes();
}

SlotFile write_slot_file(const SlotLayout& layout, std::uint32_t streams, std::span<const Token> tokens,
                         std::span<std::byte> out) {
  assert(out.size() == slot_file_bytes(layout, streams, tokens.size()) && !tokens.empty());
  SlotFile file{.layout = layout, .streams = streams, .tokens = {tokens.begin(), tokens.end()}};
  const auto count = static_cast<std::uint32_t>(tokens.size());
  std::uint64_t at = 0;
  put(out, at, magic);
  put(out, at, layout.version);
  put(out, at, count + (layout.marked_tokens ? 4 : 0));
  if (layout.marked_tokens) {
    put(out, at, token_marker);
    put(out, at, token_format);
    put(out, at, count);
  }
  std::memcpy(out.data() + at, tokens.data(), tokens.size_bytes());
  at += tokens.size_bytes();
  if (layout.marked_tokens) put(out, at, std::uint32_t{0});  // no media
  put(out, at, streams);
  put(out, at, count);
  for (std::uint32_t position = 0; position < count; ++position) {
    put(out, at, position);
    put(out, at, std::uint32_t{1});
    put(out, at, std::uint32_t{0});  // the sequence; the server takes that of the slot
  }
  put(out, at, std::uint32_t{0});  // not transposed
  put(out, at, static_cast<std::uint32_t>(layout.keys.size()));
  if (layout.version >= 4) {
    put(out, at, layout.rotation_keys);
    put(out, at, layout.rotation_values);
  }
  for (std::size_t index = 0; index < layout.keys.size() + layout.values.size(); ++index) {
    const SlotArray& array = array_at(layout, index);
    put(out, at, array.type);
    put(out, at, array.row_bytes);
    file.arrays.push_back(at);
    at += count * array.row_bytes;
  }
  for (std::uint32_t stream = 1; stream < streams; ++stream) put(out, at, std::uint32_t{0});
  assert(at == out.size());
  return file;
}

std::vector<SlotPart> block_parts(const SlotFile& file, std::size_t first, std::size_t used, std::size_t count) {
  assert(used <= count && first + used <= file.tokens.size());
  std::vector<SlotPart> parts;
  std::uint64_t from = 0;
  for (std::size_t index = 0; index < file.arrays.size(); ++index) {
    const std::uint64_t row_bytes = array_at(file.layout, index).row_bytes;
    parts.push_back({.from = from, .to = file.arrays[index] + first * row_bytes, .bytes = used * row_bytes});
    from += count * row_bytes;
  }
  return parts;
}

std::vector<SlotPart> parts_beside_rows(const SlotFile& file) {
  std::vector<SlotPart> parts;
  std::uint64_t at = 0;
  for (std::size_t index = 0; index < file.arrays.size(); ++index) {
    parts.push_back({.from = at, .to = at, .bytes = file.arrays[index] - at});
    at = file.arrays[index] + file.tokens.size() * array_at(file.layout, index).row_bytes;
  }
  const std::uint64_t end = slot_file_bytes(file.layout, file.streams, file.tokens.size());
  if (at < end) parts.push_back({.from = at, .to = at, .bytes = end - at});
  return parts;
}

}  // namespace artesian
