// A block into a store and back: c++ store.cpp, linked with artesian_store.
#include <artesian/store.h>

#include <cstdio>
#include <string_view>

#include "store/store_files.h"

int main(int argc, char** argv) {
  using namespace artesian;
  StoreFilesOptions options{.paths = {{.path = argc > 1 ? argv[1] : ".", .bytes = 64 * MiB}},
                            .geometry = {.segment_bytes = 2 * MiB, .block_bytes_max = 1 * MiB}};
  if (auto made = create_store(options, false); !made)
    return std::fprintf(stderr, "%s\n", made.error().message.c_str());
  auto store = open_store(options);
  if (!store) return std::fprintf(stderr, "%s\n", store.error().message.c_str());
  const auto ns = (*store)->open_namespace({.model = "m", .weights = "sha256:of the model's files"});
  if (!ns) return std::fprintf(stderr, "%s\n", ns.error().message.c_str());

  const std::string_view key = "hash of the tokens", block = "keys and values of 16 tokens";
  Put put{.key = std::as_bytes(std::span(key)), .data = std::as_bytes(std::span(block)), .hints = {.tokens = 16}};
  (*store)->put(*ns, std::span(&put, 1));
  std::string room(block.size(), ' ');
  Get get{.key = put.key, .buffer = std::as_writable_bytes(std::span(room))};
  (*store)->get(*ns, std::span(&get, 1));
  std::printf("%s: %s\n", outcome_name(get.outcome), room.c_str());
  return get.outcome == Outcome::hit ? 0 : 1;
}
