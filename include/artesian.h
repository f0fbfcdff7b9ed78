/* Artesian's KV block store for C, and for whatever calls C: blocks by key, in memory and on flash, in batches with an
 * answer for each block. A block comes back whole, verified and under its full key, or not at all.
 *
 * Threads: every call is safe from any thread; an open store has one thread of its own, on which callbacks run. Memory:
 * what a batch points to (items, keys, buffers) is the caller's and must stay where it is until the batch is answered;
 * a read lands in the caller's buffer, and a buffer that is a multiple of 4 KiB in address and size is not copied.
 * Units: bytes, microseconds. Errors: calls that can fail as a whole return an artesian_code; artesian_last_error()
 * says in one sentence what and where. What can fail for a block is its outcome.
 *
 * Versions: every structure begins with its size as the caller knows it (use ARTESIAN_INIT); members that are added
 * later are zero for older callers. artesian_abi_version() changes only if an older caller would not work any more. */
#ifndef ARTESIAN_H
#define ARTESIAN_H

#include <stddef.h>
#include <stdint.h>

#if defined(__GNUC__)
#define ARTESIAN_API __attribute__((visibility("default")))
#else
#define ARTESIAN_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

#define ARTESIAN_ABI_VERSION 1u

/* Zeroes a structure and writes its size into it: artesian_options options; ARTESIAN_INIT(&options); */
#define ARTESIAN_INIT(pointer) artesian_init_struct((pointer), sizeof(*(pointer)))
ARTESIAN_API void artesian_init_struct(void* structure, size_t size);

ARTESIAN_API uint32_t artesian_abi_version(void);

typedef enum artesian_code {
  ARTESIAN_OK = 0,
  ARTESIAN_NOT_FOUND = 1,
  ARTESIAN_REJECTED = 2,      /* by a limit, a policy, or another owner; carry on without */
  ARTESIAN_RETRY = 3,         /* busy now; the same call may pass later */
  ARTESIAN_CORRUPT = 4,       /* what lies there is not what it must be */
  ARTESIAN_DEVICE_FAILED = 5, /* the system or the drive reported an error */
  ARTESIAN_INVALID = 6        /* the caller asked for something impossible */
} artesian_code;

/* Of this thread's last call that did not return ARTESIAN_OK; never null. */
ARTESIAN_API const char* artesian_last_error(void);

typedef enum artesian_outcome {
  ARTESIAN_NONE = 0,    /* not answered yet */
  ARTESIAN_HIT = 1,     /* get: the bytes are in the buffer; stage: in memory; exists, erase, pin: it is (was) there */
  ARTESIAN_STORED = 2,  /* put: written and visible; durable after artesian_flush */
  ARTESIAN_PRESENT = 3, /* put: it is there already, nothing was written */
  ARTESIAN_MISS = 4,
  ARTESIAN_BAD = 5,    /* it was there and is not what it must be: forgotten, the buffer is zeroed */
  ARTESIAN_LATE = 6,   /* the deadline passed before it was begun */
  ARTESIAN_SHED = 7,   /* put, pin: refused by a limit or a policy */
  ARTESIAN_FAILED = 8, /* the device reported an error; the buffer is zeroed */
  ARTESIAN_WRONG = 9   /* key, size or hints against the limits; for get, a buffer that is too small */
} artesian_outcome;

typedef struct artesian_store artesian_store;

typedef struct artesian_options {
  size_t struct_size;
  const char* const* paths; /* files, folders or block devices, path_count of them */
  const uint64_t* caps;     /* one a path, metadata included; null, or 0 for one: as it is (opening) */
  size_t path_count;
  uint64_t memory_bytes; /* of the memory tier; 0: none */
  uint64_t buffer_bytes; /* for what is on its way; 0: 256 MiB */
  uint32_t queue_depth;  /* requests at the drive at once; 0: 64 */
  uint32_t lock_wait_ms; /* how long to wait for another owner to be gone; 0: 2 s */
  /* What is worth saying, one sentence at a time, from any thread; may be null. */
  void (*report)(void* context, const char* text);
  void* report_context;
  /* Of a new store only. */
  uint64_t segment_bytes;   /* the drive's reclaim unit; 0: the default */
  uint64_t block_bytes_max; /* 0: the default; at most 64 MiB */
  /* Where figures are served for Prometheus: "9464" (on this machine alone) or "address:port"; null: nowhere. */
  const char* metrics;
  /* The store is, or is to be, encrypted with the key in this file: 32 bytes or 64 hex digits, mode 0600; null: not. */
  const char* key_file;
  uint32_t share; /* not 0: other processes of this user may attach to the store */
  uint32_t reserved;
} artesian_options;

/* Makes an empty store; space is taken at once. Files that are not empty are refused unless `overwrite` is not 0. */
ARTESIAN_API artesian_code artesian_create(const artesian_options* options, int overwrite);
/* One owner a store: ARTESIAN_REJECTED if another process (or this one) has it open. */
ARTESIAN_API artesian_code artesian_open(const artesian_options* options, artesian_store** store);
/* The store in paths[0] that another process shares (artesiand, or an owner with `share`), used as if it were this
 * one's own; data goes through `buffer_bytes` of shared memory. ARTESIAN_NOT_FOUND if nobody shares it. When the owner
 * goes, gets fail, puts are shed and nothing exists until it is back. Other options are the owner's. */
ARTESIAN_API artesian_code artesian_attach(const artesian_options* options, artesian_store** store);
/* Waits for what is under way. Null is allowed. */
ARTESIAN_API void artesian_close(artesian_store* store);

/* What makes KV blocks different from all others. Null is an empty text. */
typedef struct artesian_namespace {
  size_t struct_size;
  const char* model;
  const char* weights; /* a fingerprint of the weights: demanded */
  const char* dtype;   /* "bf16" */
  const char* layout;  /* in the engine's own words */
  const char* adapter;
  const char* salt;  /* a tenant's secret; it is in no file */
  const char* codec; /* "exponent" or null: how new blocks are written; not part of what the namespace is */
  uint32_t block_tokens, rank, world_size;
  /* Which blocks are written and stay: "chats" or null, "shared", or a pair as "second-sighting+clock"; not part of
   * what the namespace is. */
  const char* policy;
} artesian_namespace;
ARTESIAN_API artesian_code artesian_open_namespace(artesian_store* store, const artesian_namespace* fields,
                                                   uint32_t* ns);
/* All its blocks are unreadable when this returns ARTESIAN_OK, also after a crash. */
ARTESIAN_API artesian_code artesian_erase_namespace(artesian_store* store, uint32_t ns);

typedef struct artesian_bytes {
  const void* data;
  size_t size;
} artesian_bytes;
typedef struct artesian_memory {
  void* data;
  size_t size;
} artesian_memory;

/* 0 is "not known". */
typedef struct artesian_hints {
  uint64_t session;
  uint32_t position;    /* which block of its sequence */
  uint32_t tokens;      /* in it */
  uint64_t deadline_ms; /* Unix time after which it is of no use */
  uint64_t next_use_ms; /* Unix time at which it will be wanted */
  uint32_t lifetime;    /* blocks of one class, 0 to 3, are expected to die together */
  uint32_t reserved;
} artesian_hints;

typedef struct artesian_put_item {
  size_t struct_size;
  artesian_bytes key;           /* 1 to 255 bytes */
  artesian_bytes parent;        /* key of the block before it, in the same namespace */
  artesian_bytes attributes;    /* up to 1 KiB of the caller's */
  const artesian_bytes* pieces; /* the block: pieces that follow one another */
  size_t piece_count;
  const uint32_t* extents; /* sizes of the parts that have a checksum each, in order; null: one */
  size_t extent_count;
  artesian_hints hints;
  uint32_t outcome; /* of artesian_outcome; set when the batch is answered */
} artesian_put_item;

typedef struct artesian_get_item {
  size_t struct_size;
  artesian_bytes key;
  const artesian_memory* pieces; /* room for the block */
  size_t piece_count;
  uint64_t bytes;   /* of the block, on a hit */
  uint32_t outcome; /* of artesian_outcome; set when the batch is answered */
} artesian_get_item;

typedef struct artesian_key_item {
  size_t struct_size;
  artesian_bytes key;
  uint32_t outcome;
} artesian_key_item;

/* How a batch is served and answered. Null: demand, no deadline, tag 0. */
typedef struct artesian_batch {
  size_t struct_size;
  uint64_t deadline_us; /* from now; 0: none */
  uint32_t staged;      /* not 0: served after demand reads */
  uint64_t tag;         /* comes back from artesian_drain */
  /* Called once all items have their outcomes, on the store's thread or before the submitting call returns; it must
   * not block. Null: the tag is queued for artesian_drain, and the event descriptor becomes readable. */
  void (*done)(void* context);
  void* context;
} artesian_batch;

/* Never block. Items are an array; each tells its size (all the same). */
ARTESIAN_API artesian_code artesian_submit_put(artesian_store* store, uint32_t ns, artesian_put_item* items,
                                               size_t count, const artesian_batch* batch);
ARTESIAN_API artesian_code artesian_submit_get(artesian_store* store, uint32_t ns, artesian_get_item* items,
                                               size_t count, const artesian_batch* batch);
/* Brings blocks into the memory tier by the deadline, so that a get finds them there. */
ARTESIAN_API artesian_code artesian_submit_stage(artesian_store* store, uint32_t ns, artesian_key_item* items,
                                                 size_t count, const artesian_batch* batch);
/* Readable while there are tags to drain; belongs to the store. */
ARTESIAN_API int artesian_event_fd(artesian_store* store);
/* Takes up to `count` tags of answered batches, in the order in which they were answered, and returns how many. */
ARTESIAN_API size_t artesian_drain(artesian_store* store, uint64_t* tags, size_t count);

/* The same, waited for (tag, done and context are not looked at). */
ARTESIAN_API artesian_code artesian_put(artesian_store* store, uint32_t ns, artesian_put_item* items, size_t count,
                                        const artesian_batch* batch);
ARTESIAN_API artesian_code artesian_get(artesian_store* store, uint32_t ns, artesian_get_item* items, size_t count,
                                        const artesian_batch* batch);

/* From memory alone. */
ARTESIAN_API artesian_code artesian_exists(artesian_store* store, uint32_t ns, artesian_key_item* items, size_t count);
ARTESIAN_API artesian_code artesian_erase(artesian_store* store, uint32_t ns, artesian_key_item* items, size_t count);
/* How many of the keys, from the first on, are there. */
ARTESIAN_API size_t artesian_longest_prefix(artesian_store* store, uint32_t ns, const artesian_bytes* keys,
                                            size_t count);
/* A pinned block is not evicted; pins count, and end with the store's owner. */
ARTESIAN_API artesian_code artesian_pin(artesian_store* store, uint32_t ns, artesian_key_item* items, size_t count);
ARTESIAN_API artesian_code artesian_unpin(artesian_store* store, uint32_t ns, const artesian_bytes* keys, size_t count);

/* Pins with a name, of 1 to 64 bytes: on flash, until they are removed or their namespace is erased, also those of a
 * process that has attached. Blocks are added
 * to one that is there; of those whose outcome is ARTESIAN_HIT pin and block are durable when this returns ARTESIAN_OK.
 */
ARTESIAN_API artesian_code artesian_pin_named(artesian_store* store, uint32_t ns, const char* name,
                                              artesian_key_item* items, size_t count);
/* ARTESIAN_NOT_FOUND if there is none of that name. */
ARTESIAN_API artesian_code artesian_unpin_named(artesian_store* store, uint32_t ns, const char* name);
/* `each` for every named pin of the store (attached: of the namespaces that were opened); it returns 0 to end it. */
typedef int (*artesian_each_pin)(void* context, uint32_t ns, const char* name, uint64_t blocks, uint64_t bytes);
ARTESIAN_API artesian_code artesian_list_pins(artesian_store* store, artesian_each_pin each, void* context);

/* What was stored or erased before is durable when this returns ARTESIAN_OK. */
ARTESIAN_API artesian_code artesian_flush(artesian_store* store);

/* Every block of the namespace: key, its parent's key, attributes, bytes, hints. `each` returns 0 to end it. */
typedef int (*artesian_each)(void* context, artesian_bytes key, artesian_bytes parent, artesian_bytes attributes,
                             uint64_t bytes, const artesian_hints* hints);
ARTESIAN_API artesian_code artesian_list(artesian_store* store, uint32_t ns, artesian_each each, void* context);

typedef struct artesian_stats {
  size_t struct_size;
  uint64_t blocks, capacity_bytes, live_bytes;
  uint64_t segments, segments_free;
  uint64_t hits, memory_hits, misses, bad, late, failed, staged;
  uint64_t stored, present, shed, put_failed;
  uint64_t bytes_read, bytes_put, bytes_saved, bytes_carried, bytes_written;
  uint64_t evicted, carried, erased, pinned;
  uint64_t index_bytes, memory_bytes, buffer_bytes;
} artesian_stats;
ARTESIAN_API artesian_code artesian_get_stats(artesian_store* store, artesian_stats* stats);

#ifdef __cplusplus
}
#endif

#endif
