// libFuzzer: no bytes may crash the parser of slot files; what it accepts lies inside the file and can be taken apart
// and put together again.
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "format/slot_file.h"

namespace {

using namespace artesian;

void require(bool holds) {
  if (!holds) std::abort();
}

std::vector<std::byte> seed_file() {
  const SlotLayout layout{.rotation_keys = 1, .keys = {{1, 4}, {1, 4}}, .values = {{8, 2}, {8, 2}}};
  const std::vector<Token> tokens = {5, 6, 7};
  std::vector<std::byte> bytes(slot_file_bytes(layout, 2, tokens.size()));
  write_slot_file(layout, 2, tokens, bytes);
  return bytes;
}

}  // namespace

extern "C" std::size_t LLVMFuzzerMutate(std::uint8_t* data, std::size_t bytes, std::size_t bytes_max);

// Starts from a valid file, now and then again.
extern "C" std::size_t LLVMFuzzerCustomMutator(std::uint8_t* data, std::size_t bytes, std::size_t bytes_max,
                                               unsigned seed) {
  static const std::vector<std::byte> valid = seed_file();
  if ((bytes < 24 || seed % 64 == 0) && valid.size() <= bytes_max) {
    std::memcpy(data, valid.data(), valid.size());
    bytes = valid.size();
  }
  return LLVMFuzzerMutate(data, bytes, bytes_max);
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t bytes) {
  const auto view = std::as_bytes(std::span(data, bytes));
  const auto file = parse_slot_file(view, "slot");
  if (!file) {
    require(!file.error().message.empty());
    return 0;
  }
  if (file->tokens.empty()) return 0;
  const std::size_t count = file->tokens.size();
  std::vector<std::byte> block;
  for (const auto piece : block_pieces(*file, view, 0, count)) block.insert(block.end(), piece.begin(), piece.end());
  require(block.size() == count * file->layout.token_bytes());
  std::vector<std::byte> again(slot_file_bytes(file->layout, file->streams, count));
  const SlotFile written = write_slot_file(file->layout, file->streams, file->tokens, again);
  for (const SlotPart& part : block_parts(written, 0, count, count)) {
    require(part.from + part.bytes <= block.size() && part.to + part.bytes <= again.size());
    std::memcpy(again.data() + part.to, block.data() + part.from, part.bytes);
  }
  const auto read = parse_slot_file(again, "again");
  require(read && read->tokens == file->tokens && read->layout == file->layout && read->rows.empty());
  return 0;
}
