// What llama-server writes for POST /slots/{id}?action=save and reads back with restore: the tokens of a slot and, for
// each of them, a row in every array of keys and values. Versions 3 and 4. Read as hostile input: a layout that is not
// exactly as expected is refused, never guessed.
//
// Rows lie by token, so that a file can be taken apart into pieces of some tokens each (a block: the rows of its
// tokens, array after array, keys before values), and one for any prefix put together from blocks.
//
// Pure; safe from any thread. Ownership: what points into a file's bytes lives as long as these. Units: bytes, tokens.
// Errors: corrupt for a file that is cut short or contradicts itself, rejected for a layout that is not known: more
// than one cache (sliding window, recurrent, hybrid models), transposed values, cells with an extension, media.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"

namespace artesian {

using Token = std::int32_t;

struct SlotArray {
  std::int32_t type = 0;  // ggml's number of the type
  std::uint64_t row_bytes = 0;
  bool operator==(const SlotArray&) const = default;
};

// What two files must have in common for their rows to be exchanged.
struct SlotLayout {
  std::uint32_t version = 4;
  bool marked_tokens = true;                             // -1, 1, count, ids, 0 media; otherwise the ids alone
  std::uint32_t rotation_keys = 0, rotation_values = 0;  // version 4
  std::vector<SlotArray> keys, values;

  std::uint64_t token_bytes() const;  // of one token in all arrays
  std::string text() const;           // the same for equal layouts only
  bool operator==(const SlotLayout&) const = default;
};

// A file that was read: where everything is in its bytes.
struct SlotFile {
  SlotLayout layout;
  std::uint32_t streams = 0;
  std::vector<Token> tokens;          // those that have a row
  std::vector<std::uint32_t> rows;    // of each token; empty: row i is token i
  std::vector<std::uint64_t> arrays;  // offsets: keys, then values
};

// An empty slot is a valid file without arrays. `name` is for messages.
Result<SlotFile> parse_slot_file(std::span<const std::byte> bytes, const std::string& name);

// The rows of tokens [first, first + count) as the pieces of a block, in order. They lie in `bytes`, which the file was
// parsed from.
std::vector<std::span<const std::byte>> block_pieces(const SlotFile& file, std::span<const std::byte> bytes,
                                                     std::size_t first, std::size_t count);

// How long a file for so many tokens is.
std::uint64_t slot_file_bytes(const SlotLayout& layout, std::uint32_t streams, std::size_t tokens);

// Writes all of a file but its rows into `out`, which has slot_file_bytes(); returns what parsing it would give.
SlotFile write_slot_file(const SlotLayout& layout, std::uint32_t streams, std::span<const Token> tokens,
                         std::span<std::byte> out);

// Bytes that go from one place to another.
struct SlotPart {
  std::uint64_t from = 0, to = 0, bytes = 0;
};

// Where the rows of a block of `count` tokens, of which the first `used` are wanted, belong: from offsets in the block
// to offsets in the file.
std::vector<SlotPart> block_parts(const SlotFile& file, std::size_t first, std::size_t used, std::size_t count);
// What of a file that write_slot_file() wrote is not rows; from and to are the same.
std::vector<SlotPart> parts_beside_rows(const SlotFile& file);

}  // namespace artesian
