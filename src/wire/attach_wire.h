// What the owner of a store and a process that attaches to it say to each other, over a Unix socket, little-endian.
//
// The client begins: a greeting, with memory to share beside it, in which all data lies. Then frames go both ways: four
// bytes of length, and so many bytes. The client asks, each request with a number of its own; the owner answers each
// once, in any order. What is decoded points into the frame. Both ends take the other's bytes as hostile.
//
// Threads: pure functions. Units: bytes, nanoseconds.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "artesian/store.h"
#include "base/units.h"

namespace artesian::attach {

constexpr std::uint32_t version = 2;
constexpr std::size_t length_bytes = 4;
constexpr std::size_t frame_bytes_max = 16 * MiB;
constexpr std::size_t items_max = 16 * 1024;  // of one request
constexpr std::size_t pins_max = 64 * 1024;   // of one answer
constexpr std::size_t page = 4096;            // what data in the shared memory is aligned to

using Greeting = std::array<std::byte, 16>;
Greeting greeting();
// invalid, with a sentence, for one of something else or of another version.
Status check_greeting(const Greeting& heard);

enum class Op : std::uint8_t {
  open_namespace = 1,
  erase_namespace,
  flush,
  put,
  get,
  stage,
  exists,
  erase,
  pin,
  unpin,
  longest_prefix,
  pin_named,
  unpin_named,
  named_pins,  // of all namespaces that the client has opened
};

struct Item {
  std::span<const std::byte> key;
  // Where the data lies in the shared memory, and how many bytes (get: how many there is room for).
  std::uint64_t offset = 0, bytes = 0;
  // Of a put.
  std::span<const std::byte> parent, attributes;
  std::vector<std::uint32_t> extents;
  BlockHints hints;
};

struct Request {
  Op op = Op::flush;
  std::uint64_t id = 0;
  NamespaceId ns = 0;
  Nanos patience{0};  // from now; 0: for ever
  Urgency urgency = Urgency::demand;
  NamespaceFields fields;  // of open_namespace
  std::string name;        // of pin_named, unpin_named
  std::vector<Item> items;
};

struct Reply {
  std::uint64_t id = 0;
  std::optional<Error> error;
  std::uint64_t value = 0;  // a namespace; a length of a prefix
  struct One {
    Outcome outcome = Outcome::none;
    std::uint64_t bytes = 0;
  };
  std::vector<One> items;
  std::vector<PinFacts> pins;  // of named_pins
};

// Whole frames, the length in front.
std::vector<std::byte> encode(const Request& request);
std::vector<std::byte> encode(const Reply& reply);

// Gives a request that is encoded another number.
void set_id(std::vector<std::byte>& frame, std::uint64_t id);

// `body`: a frame without its length. corrupt for what is no such thing.
Result<Request> decode_request(std::span<const std::byte> body);
Result<Reply> decode_reply(std::span<const std::byte> body);

}  // namespace artesian::attach
