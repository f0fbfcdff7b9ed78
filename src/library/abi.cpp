// The C library: artesian.h over StoreHost. Nothing of C++ crosses it, exceptions (of a lack of memory) neither.
#include "artesian.h"

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "library/open.h"

using artesian::Code;
using artesian::fail;
using artesian::Result;
using artesian::Status;

struct artesian_store {
  std::unique_ptr<artesian::StoreHost> host;
};

namespace {

thread_local std::string last_error = "no call has failed";

artesian_code code_of(Code code) {
  switch (code) {
    case Code::not_found:
      return ARTESIAN_NOT_FOUND;
    case Code::rejected:
      return ARTESIAN_REJECTED;
    case Code::retry:
      return ARTESIAN_RETRY;
    case Code::corrupt:
      return ARTESIAN_CORRUPT;
    case Code::device_failed:
      return ARTESIAN_DEVICE_FAILED;
    case Code::invalid:
      return ARTESIAN_INVALID;
  }
  return ARTESIAN_INVALID;
}

// Every call that returns a code is one of these.
template <typename Body>
artesian_code guarded(Body body) {
  try {
    const Status status = body();
    if (status) return ARTESIAN_OK;
    last_error = status.error().message;
    return code_of(status.error().code);
  } catch (const std::exception& error) {  // std::bad_alloc: nothing else here throws
    last_error = error.what();
    return ARTESIAN_REJECTED;
  }
}

// A structure of the caller's as this library knows it: what an older caller does not have is zero; what a newer one
// has besides must be.
template <typename Struct>
Status take(const Struct* from, Struct& to, const char* name) {
  std::memset(&to, 0, sizeof(to));
  if (from == nullptr) return {};
  std::size_t size = 0;
  std::memcpy(&size, from, sizeof(size));
  constexpr std::size_t absurd = 64 * 1024;
  if (size < sizeof(size) || size > absurd) {
    return fail(Code::invalid, "{}: struct_size is {}: ARTESIAN_INIT was not used", name, size);
  }
  const auto* bytes = reinterpret_cast<const unsigned char*>(from);
  for (std::size_t i = sizeof(Struct); i < size; ++i) {
    if (bytes[i] != 0) return fail(Code::invalid, "{}: asks for what this version of the library does not have", name);
  }
  std::memcpy(&to, from, std::min(size, sizeof(Struct)));
  return {};
}

// The items of a batch, each as large as the caller says.
template <typename Item>
class Items {
 public:
  static Result<Items> of(Item* items, std::size_t count) {
    if (count == 0) return Items(nullptr, 0, sizeof(Item));
    if (items == nullptr) return fail(Code::invalid, "items: null for {} of them", count);
    std::size_t size = 0;
    std::memcpy(&size, items, sizeof(size));
    constexpr std::size_t absurd = 64 * 1024;
    if (size < sizeof(Item) || size > absurd) {
      return fail(Code::invalid, "items: struct_size is {}, this library knows {}", size, sizeof(Item));
    }
    return Items(reinterpret_cast<unsigned char*>(items), count, size);
  }
  std::size_t size() const { return count_; }
  Item& operator[](std::size_t i) const { return *reinterpret_cast<Item*>(items_ + i * stride_); }

 private:
  Items(unsigned char* items, std::size_t count, std::size_t stride) : items_(items), count_(count), stride_(stride) {}
  unsigned char* items_;
  std::size_t count_, stride_;
};

std::span<const std::byte> bytes_of(const artesian_bytes& bytes) {
  return {static_cast<const std::byte*>(bytes.data), bytes.size};
}
std::string text_of(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

artesian::BlockHints hints_of(const artesian_hints& hints) {
  return {.session = hints.session,
          .position = hints.position,
          .tokens = hints.tokens,
          .deadline_ms = hints.deadline_ms,
          .next_use_ms = hints.next_use_ms,
          .lifetime = static_cast<std::uint8_t>(std::min<std::uint32_t>(hints.lifetime, UINT8_MAX))};
}

// A batch under way: the C items as the store takes them, until they are answered.
struct Puts {
  explicit Puts(Items<artesian_put_item> given) : items(given) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < items.size(); ++i) count += items[i].piece_count;
    pieces.reserve(count);  // spans into it stay good
    for (std::size_t i = 0; i < items.size(); ++i) {
      const artesian_put_item& item = items[i];
      const std::size_t from = pieces.size();
      for (std::size_t p = 0; p < item.piece_count; ++p) pieces.push_back(bytes_of(item.pieces[p]));
      batch.push_back({.key = bytes_of(item.key),
                       .parent = bytes_of(item.parent),
                       .attributes = bytes_of(item.attributes),
                       .pieces = std::span(pieces).subspan(from),
                       .extents = {item.extents, item.extents == nullptr ? 0 : item.extent_count},
                       .hints = hints_of(item.hints)});
    }
  }
  void answer() const {
    for (std::size_t i = 0; i < items.size(); ++i) items[i].outcome = static_cast<std::uint32_t>(batch[i].outcome);
  }

  Items<artesian_put_item> items;
  std::vector<std::span<const std::byte>> pieces;
  std::vector<artesian::Put> batch;
};

struct Gets {
  explicit Gets(Items<artesian_get_item> given) : items(given) {
    std::size_t count = 0;
    for (std::size_t i = 0; i < items.size(); ++i) count += items[i].piece_count;
    pieces.reserve(count);
    for (std::size_t i = 0; i < items.size(); ++i) {
      const artesian_get_item& item = items[i];
      const std::size_t from = pieces.size();
      for (std::size_t p = 0; p < item.piece_count; ++p) {
        pieces.emplace_back(static_cast<std::byte*>(item.pieces[p].data), item.pieces[p].size);
      }
      batch.push_back({.key = bytes_of(item.key), .pieces = std::span(pieces).subspan(from)});
    }
  }
  void answer() const {
    for (std::size_t i = 0; i < items.size(); ++i) {
      items[i].outcome = static_cast<std::uint32_t>(batch[i].outcome);
      items[i].bytes = batch[i].bytes;
    }
  }

  Items<artesian_get_item> items;
  std::vector<std::span<std::byte>> pieces;
  std::vector<artesian::Get> batch;
};

struct Probes {
  explicit Probes(Items<artesian_key_item> given) : items(given) {
    for (std::size_t i = 0; i < items.size(); ++i) batch.push_back({.key = bytes_of(items[i].key)});
  }
  void answer() const {
    for (std::size_t i = 0; i < items.size(); ++i) items[i].outcome = static_cast<std::uint32_t>(batch[i].outcome);
  }

  Items<artesian_key_item> items;
  std::vector<artesian::Probe> batch;
};

struct Way {
  artesian::Batch batch;
  artesian_batch given;
};

Result<Way> way_of(const artesian::Store& store, const artesian_batch* batch) {
  Way way;
  if (auto taken = take(batch, way.given, "batch"); !taken) return fail(std::move(taken.error()));
  constexpr std::uint64_t forever = 1ULL << 50;  // some 35 years
  if (way.given.deadline_us > 0 && way.given.deadline_us < forever) {
    way.batch.deadline = store.now() + std::chrono::microseconds(way.given.deadline_us);
  }
  if (way.given.staged != 0) way.batch.urgency = artesian::Urgency::staged;
  return way;
}

// Hands a batch to the host; it lives until it is answered.
template <typename Made, typename Item, typename Submit>
artesian_code submitted(artesian_store* store, Item* items, std::size_t count, const artesian_batch* batch,
                        Submit submit) {
  return guarded([&]() -> Status {
    auto given = Items<Item>::of(items, count);
    if (!given) return fail(std::move(given.error()));
    auto way = way_of(store->host->store(), batch);
    if (!way) return fail(std::move(way.error()));
    auto made = std::make_shared<Made>(*given);
    submit(*made, way->batch, [made, host = store->host.get(), told = way->given] {
      made->answer();
      if (told.done != nullptr) {
        told.done(told.context);
      } else {
        host->announce(told.tag);
      }
    });
    return {};
  });
}

template <typename Made, typename Item, typename Call>
artesian_code waited(Item* items, std::size_t count, Call call) {
  return guarded([&]() -> Status {
    auto given = Items<Item>::of(items, count);
    if (!given) return fail(std::move(given.error()));
    Made made(*given);
    if (auto called = call(made); !called) return called;
    made.answer();
    return {};
  });
}

std::vector<std::span<const std::byte>> keys_of(const artesian_bytes* keys, std::size_t count) {
  std::vector<std::span<const std::byte>> all;
  for (std::size_t i = 0; i < count; ++i) all.push_back(bytes_of(keys[i]));
  return all;
}

std::function<void(std::string_view)> report_of(const artesian_options& given) {
  if (given.report == nullptr) return {};
  return [told = given.report, context = given.report_context](std::string_view text) {
    told(context, std::string(text).c_str());
  };
}

artesian::StoreFilesOptions files_of(const artesian_options& given) {
  artesian::StoreFilesOptions files;
  for (std::size_t i = 0; i < given.path_count; ++i) {
    files.paths.push_back({.path = text_of(given.paths[i]), .bytes = given.caps == nullptr ? 0 : given.caps[i]});
  }
  files.key_file = text_of(given.key_file);
  files.engine.memory_bytes = given.memory_bytes;
  if (given.buffer_bytes > 0) files.engine.buffer_bytes_max = given.buffer_bytes;
  if (given.queue_depth > 0) files.queue_depth_max = given.queue_depth;
  if (given.lock_wait_ms > 0) files.lock_patience = std::chrono::milliseconds(given.lock_wait_ms);
  if (given.segment_bytes > 0) files.geometry.segment_bytes = given.segment_bytes;
  if (given.block_bytes_max > 0) files.geometry.block_bytes_max = given.block_bytes_max;
  files.engine.report = report_of(given);
  return files;
}

}  // namespace

extern "C" {

void artesian_init_struct(void* structure, size_t size) {
  std::memset(structure, 0, size);
  std::memcpy(structure, &size, sizeof(size));
}

uint32_t artesian_abi_version(void) {
  return ARTESIAN_ABI_VERSION;
}

const char* artesian_last_error(void) {
  return last_error.c_str();
}

artesian_code artesian_create(const artesian_options* options, int overwrite) {
  return guarded([&]() -> Status {
    artesian_options given;
    if (auto taken = take(options, given, "options"); !taken) return taken;
    return artesian::create_store(files_of(given), overwrite != 0);
  });
}

artesian_code artesian_open(const artesian_options* options, artesian_store** store) {
  return guarded([&]() -> Status {
    artesian_options given;
    if (auto taken = take(options, given, "options"); !taken) return taken;
    auto host = artesian::open_host(files_of(given), {.metrics = text_of(given.metrics), .share = given.share != 0});
    if (!host) return fail(std::move(host.error()));
    *store = new artesian_store{std::move(*host)};
    return {};
  });
}

artesian_code artesian_attach(const artesian_options* options, artesian_store** store) {
  return guarded([&]() -> Status {
    artesian_options given;
    if (auto taken = take(options, given, "options"); !taken) return taken;
    if (given.path_count != 1) return fail(Code::invalid, "options: a store is attached to by one path of it");
    auto host = artesian::attach_host(text_of(given.paths[0]), given.buffer_bytes, report_of(given));
    if (!host) return fail(std::move(host.error()));
    *store = new artesian_store{std::move(*host)};
    return {};
  });
}

void artesian_close(artesian_store* store) {
  delete store;
}

artesian_code artesian_open_namespace(artesian_store* store, const artesian_namespace* fields, uint32_t* ns) {
  return guarded([&]() -> Status {
    artesian_namespace given;
    if (auto taken = take(fields, given, "namespace"); !taken) return taken;
    const auto id = store->host->store().open_namespace({.model = text_of(given.model),
                                                         .weights = text_of(given.weights),
                                                         .dtype = text_of(given.dtype),
                                                         .layout = text_of(given.layout),
                                                         .block_tokens = given.block_tokens,
                                                         .rank = given.rank,
                                                         .world_size = std::max(1U, given.world_size),
                                                         .adapter = text_of(given.adapter),
                                                         .salt = text_of(given.salt),
                                                         .codec = text_of(given.codec),
                                                         .policy = text_of(given.policy)});
    if (!id) return fail(id.error());
    *ns = *id;
    return {};
  });
}

artesian_code artesian_erase_namespace(artesian_store* store, uint32_t ns) {
  return guarded([&] { return store->host->store().erase_namespace(ns); });
}

artesian_code artesian_submit_put(artesian_store* store, uint32_t ns, artesian_put_item* items, size_t count,
                                  const artesian_batch* batch) {
  return submitted<Puts>(store, items, count, batch, [&](Puts& made, const artesian::Batch& way, auto done) {
    store->host->submit(ns, std::span(made.batch), way, std::move(done));
  });
}

artesian_code artesian_submit_get(artesian_store* store, uint32_t ns, artesian_get_item* items, size_t count,
                                  const artesian_batch* batch) {
  return submitted<Gets>(store, items, count, batch, [&](Gets& made, const artesian::Batch& way, auto done) {
    store->host->submit(ns, std::span(made.batch), way, std::move(done));
  });
}

artesian_code artesian_submit_stage(artesian_store* store, uint32_t ns, artesian_key_item* items, size_t count,
                                    const artesian_batch* batch) {
  return submitted<Probes>(store, items, count, batch, [&](Probes& made, const artesian::Batch& way, auto done) {
    store->host->stage(ns, std::span(made.batch), way, std::move(done));
  });
}

int artesian_event_fd(artesian_store* store) {
  return store->host->event_fd();
}

size_t artesian_drain(artesian_store* store, uint64_t* tags, size_t count) {
  return store->host->drain(std::span(tags, count));
}

artesian_code artesian_put(artesian_store* store, uint32_t ns, artesian_put_item* items, size_t count,
                           const artesian_batch* batch) {
  return waited<Puts>(items, count, [&](Puts& made) -> Status {
    const auto way = way_of(store->host->store(), batch);
    if (!way) return fail(way.error());
    store->host->store().put(ns, made.batch, way->batch);
    return {};
  });
}

artesian_code artesian_get(artesian_store* store, uint32_t ns, artesian_get_item* items, size_t count,
                           const artesian_batch* batch) {
  return waited<Gets>(items, count, [&](Gets& made) -> Status {
    const auto way = way_of(store->host->store(), batch);
    if (!way) return fail(way.error());
    store->host->store().get(ns, made.batch, way->batch);
    return {};
  });
}

artesian_code artesian_exists(artesian_store* store, uint32_t ns, artesian_key_item* items, size_t count) {
  return waited<Probes>(items, count, [&](Probes& made) -> Status {
    store->host->store().exists(ns, made.batch);
    return {};
  });
}

artesian_code artesian_erase(artesian_store* store, uint32_t ns, artesian_key_item* items, size_t count) {
  return waited<Probes>(items, count, [&](Probes& made) -> Status {
    store->host->store().erase(ns, made.batch);
    return {};
  });
}

artesian_code artesian_pin(artesian_store* store, uint32_t ns, artesian_key_item* items, size_t count) {
  return waited<Probes>(items, count, [&](Probes& made) -> Status {
    store->host->store().pin(ns, made.batch);
    return {};
  });
}

artesian_code artesian_unpin(artesian_store* store, uint32_t ns, const artesian_bytes* keys, size_t count) {
  return guarded([&]() -> Status {
    store->host->store().unpin(ns, keys_of(keys, count));
    return {};
  });
}

size_t artesian_longest_prefix(artesian_store* store, uint32_t ns, const artesian_bytes* keys, size_t count) {
  size_t found = 0;
  guarded([&]() -> Status {
    found = store->host->store().longest_prefix(ns, keys_of(keys, count));
    return {};
  });
  return found;
}

artesian_code artesian_pin_named(artesian_store* store, uint32_t ns, const char* name, artesian_key_item* items,
                                 size_t count) {
  return waited<Probes>(items, count,
                        [&](Probes& made) { return store->host->store().pin_named(ns, text_of(name), made.batch); });
}

artesian_code artesian_unpin_named(artesian_store* store, uint32_t ns, const char* name) {
  return guarded([&] { return store->host->store().unpin_named(ns, text_of(name)); });
}

artesian_code artesian_list_pins(artesian_store* store, artesian_each_pin each, void* context) {
  return guarded([&]() -> Status {
    for (const artesian::PinFacts& pin : store->host->store().named_pins()) {
      if (each(context, pin.ns, pin.name.c_str(), pin.blocks, pin.bytes) == 0) break;
    }
    return {};
  });
}

artesian_code artesian_flush(artesian_store* store) {
  return guarded([&] { return store->host->store().flush(); });
}

artesian_code artesian_list(artesian_store* store, uint32_t ns, artesian_each each, void* context) {
  return guarded([&] {
    return store->host->store().list(ns, [&](const artesian::BlockFacts& facts) {
      const auto bytes = [](const std::vector<std::byte>& from) { return artesian_bytes{from.data(), from.size()}; };
      const artesian_hints hints{.session = facts.hints.session,
                                 .position = facts.hints.position,
                                 .tokens = facts.hints.tokens,
                                 .deadline_ms = facts.hints.deadline_ms,
                                 .next_use_ms = facts.hints.next_use_ms,
                                 .lifetime = facts.hints.lifetime,
                                 .reserved = 0};
      return each(context, bytes(facts.key), bytes(facts.parent), bytes(facts.attributes), facts.bytes, &hints) != 0;
    });
  });
}

artesian_code artesian_get_stats(artesian_store* store, artesian_stats* stats) {
  return guarded([&]() -> Status {
    const artesian::StoreStats now = store->host->store().stats();
    const artesian_stats all{.struct_size = stats->struct_size,
                             .blocks = now.blocks,
                             .capacity_bytes = now.capacity_bytes,
                             .live_bytes = now.live_bytes,
                             .segments = now.segments,
                             .segments_free = now.segments_free,
                             .hits = now.hits,
                             .memory_hits = now.memory_hits,
                             .misses = now.misses,
                             .bad = now.corrupt,
                             .late = now.late,
                             .failed = now.failed,
                             .staged = now.staged,
                             .stored = now.stored,
                             .present = now.present,
                             .shed = now.shed,
                             .put_failed = now.put_failed,
                             .bytes_read = now.bytes_read,
                             .bytes_put = now.bytes_put,
                             .bytes_saved = now.bytes_saved,
                             .bytes_carried = now.bytes_carried,
                             .bytes_written = now.bytes_written,
                             .evicted = now.evicted,
                             .carried = now.carried,
                             .erased = now.erased,
                             .pinned = now.pinned,
                             .index_bytes = now.index_bytes,
                             .memory_bytes = now.memory_bytes,
                             .buffer_bytes = now.buffer_bytes};
    if (stats->struct_size < sizeof(stats->struct_size)) {
      return fail(Code::invalid, "stats: struct_size is {}: ARTESIAN_INIT was not used", stats->struct_size);
    }
    std::memcpy(stats, &all, std::min(stats->struct_size, sizeof(all)));
    return {};
  });
}

}  // extern "C"
