/* A block into a store and back. cc store.c -lartesian && ./a.out FOLDER */
#include <artesian.h>
#include <stdio.h>
#include <string.h>

int main(int argc, char** argv) {
  const char* path = argc > 1 ? argv[1] : ".";
  const uint64_t cap = 64u << 20;
  artesian_options options;
  ARTESIAN_INIT(&options);
  options.paths = &path;
  options.caps = &cap;
  options.path_count = 1;
  options.segment_bytes = 2u << 20;
  options.block_bytes_max = 1u << 20;
  artesian_store* store = NULL;
  if (artesian_create(&options, 0) != ARTESIAN_OK || artesian_open(&options, &store) != ARTESIAN_OK) {
    return fprintf(stderr, "%s\n", artesian_last_error()), 1;
  }
  artesian_namespace fields;
  ARTESIAN_INIT(&fields);
  fields.weights = "sha256:of the model's files";
  uint32_t ns = 0;
  if (artesian_open_namespace(store, &fields, &ns) != ARTESIAN_OK) return 1;
  char block[] = "keys and values of 16 tokens", room[sizeof block] = "";
  const artesian_bytes piece = {block, sizeof block};
  artesian_put_item put;
  ARTESIAN_INIT(&put);
  put.key.data = "hash of the tokens";
  put.key.size = strlen("hash of the tokens");
  put.pieces = &piece;
  put.piece_count = 1;
  artesian_put(store, ns, &put, 1, NULL);
  const artesian_memory memory = {room, sizeof room};
  artesian_get_item get;
  ARTESIAN_INIT(&get);
  get.key = put.key;
  get.pieces = &memory;
  get.piece_count = 1;
  artesian_get(store, ns, &get, 1, NULL);
  printf("%s: %s\n", get.outcome == ARTESIAN_HIT ? "hit" : "miss", room);
  artesian_close(store);
  return get.outcome == ARTESIAN_HIT ? 0 : 1;
}
