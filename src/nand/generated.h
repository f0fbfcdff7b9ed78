// Bytes that a workload makes up, in a form that a simulated drive can tell: words of 8 bytes, each a fixed step after
// the one before it. Whoever knows the first word knows all of them, and a part of a block is such a sequence again, so
// a drive keeps one word for a page. Sequences of different seeds have no page in common (their first words are mixed),
// and a page in the wrong place differs in every word. Pure.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>

#include "nand/random.h"

namespace artesian::nand {

constexpr std::uint64_t generated_step = 0x9E3779B97F4A7C15ULL;

inline std::uint64_t first_word(std::span<const std::byte> bytes) {
  std::uint64_t word = 0;
  std::memcpy(&word, bytes.data(), sizeof word);
  return word;
}

// The first word of a sequence by number.
inline std::uint64_t seed_word(std::uint64_t number) {
  return Random(number).next();
}

// Bytes [from, from + out.size()) of the sequence that begins with `word`; both multiples of 8.
inline void generate(std::uint64_t word, std::size_t from, std::span<std::byte> out) {
  std::uint64_t next = word + from / sizeof word * generated_step;
  for (std::size_t at = 0; at < out.size(); at += sizeof next, next += generated_step) {
    std::memcpy(out.data() + at, &next, sizeof next);
  }
}

inline bool is_generated(std::span<const std::byte> bytes) {
  std::uint64_t expected = first_word(bytes);
  for (std::size_t at = 0; at < bytes.size();) {
    std::uint64_t differ = 0;  // 64 words at a time, so that it can be done many at once
    for (const std::size_t end = at + 512 < bytes.size() ? at + 512 : bytes.size(); at < end;
         at += sizeof expected, expected += generated_step) {
      std::uint64_t word = 0;
      std::memcpy(&word, bytes.data() + at, sizeof word);
      differ |= word ^ expected;
    }
    if (differ != 0) return false;
  }
  return true;
}

// Whether these are bytes [0, bytes.size()) of the sequence that begins with `word`.
inline bool is_generated(std::uint64_t word, std::span<const std::byte> bytes) {
  return first_word(bytes) == word && is_generated(bytes);
}

}  // namespace artesian::nand
