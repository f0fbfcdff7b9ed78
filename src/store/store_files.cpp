#include "store/store_files.h"

#include <algorithm>

#include "device/file_device.h"
#include "platform/clock.h"
#include "platform/random.h"
#include "store/store_key.h"

namespace artesian {
namespace {

std::string file_of(const StorePath& path) {
  return is_folder(path.path) ? path.path + "/artesian.store" : path.path;
}

// Past the page cache where the file system allows it, which is said once if not; locked.
Result<File> open_locked(const std::string& name, bool create, const StoreFilesOptions& options) {
  auto file = File::open(name, {.write = true, .create = create, .direct = true});
  if (!file && file.error().code == Code::rejected) {
    auto cached = File::open(name, {.write = true, .create = create});
    if (cached && options.engine.report) options.engine.report(file.error().message + "; going through the page cache");
    file = std::move(cached);
  }
  if (!file) return file;
  if (auto locked = file->lock(options.lock_patience); !locked) return fail(std::move(locked.error()));
  return file;
}

Result<std::unique_ptr<Device>> make_device(std::vector<File> files, const StoreFilesOptions& options,
                                            const Clock& clock) {
  FileDeviceOptions device{.write = true, .queue_depth_max = options.queue_depth_max, .wakeable = true};
  device.report = options.engine.report;
  return make_file_device(std::move(files), device, clock);
}

Result<Superblock> read_superblock(const File& file, std::span<std::byte> page) {
  Result<Superblock> best = fail(Code::not_found, "{}: there is no store of Artesian's", file.path());
  for (const std::uint64_t offset : superblock_offsets) {
    if (!file.read(offset, page)) continue;
    auto copy = parse_superblock(page);
    if (copy && (!best || copy->revision > best->revision)) {
      best = std::move(copy);
    } else if (!copy && !best && copy.error().code != Code::not_found) {
      best = fail(copy.error().code, "{}: {}", file.path(), copy.error().message);
    }
  }
  return best;
}

// One copy is durable before the other is touched.
Status rewrite_superblock(const File& file, Superblock& superblock, std::span<std::byte> page) {
  ++superblock.revision;
  encode_superblock(superblock, page);
  for (const std::uint64_t offset : superblock_offsets) {
    if (auto written = file.write(offset, page); !written) return written;
    if (auto synced = file.sync_data(); !synced) return synced;
  }
  return {};
}

// What of a cap a file may have as its size: the file system keeps the list of its pieces besides.
std::uint64_t file_bytes_of(std::uint64_t cap) {
  return cap - std::min(cap, std::max<std::uint64_t>(64 * KiB, cap / 4096));
}

// To its cap, whole segments; before anything else uses the file.
Status resize(const File& file, std::uint64_t cap, const SecretKey* key) {
  auto page = Arena::reserve(store_page);
  if (!page) return fail(std::move(page.error()));
  auto superblock = read_superblock(file, page->span());
  if (!superblock) return fail(std::move(superblock.error()));
  if (auto checked = check_key(*superblock, key); !checked) {
    return fail(checked.error().code, "{}: {}", file.path(), checked.error().message);
  }
  const auto size = file.size();
  if (!size) return fail(size.error());
  Superblock& sb = *superblock;
  // Not even what a crash between two steps of this left over.
  const auto fit = [&]() -> Status {
    if (file.block_device() || *size <= sb.file_bytes()) return {};
    return file.truncate(sb.file_bytes());
  };
  const std::uint64_t most = file.block_device() ? cap : file_bytes_of(cap);
  const std::uint64_t room = most - std::min(most, sb.data_offset);
  const auto segments =
      cap == 0 ? sb.segments
               : static_cast<std::uint32_t>(std::min<std::uint64_t>(room / sb.segment_bytes, segments_limit));
  if (segments == sb.segments) return fit();
  const bool longer = segments > sb.segments;
  sb.segments = segments;
  if (auto checked = check_superblock(sb); !checked) {
    return fail(checked.error().code, "{}: a cap of {}: {}", file.path(), format_size(cap), checked.error().message);
  }
  if (longer && file.block_device() && sb.file_bytes() > *size) {
    return fail(Code::invalid, "{}: has {}, less than the cap of {}", file.path(), format_size(*size),
                format_size(cap));
  }
  if (longer && !file.block_device()) {
    if (auto allocated = file.allocate(sb.file_bytes()); !allocated) return allocated;
  }
  if (auto written = rewrite_superblock(file, sb, page->span()); !written) return written;
  return fit();
}

// For this opening, if the options name a key.
Result<std::optional<StoreKeys>> keys_of(const StoreFilesOptions& options) {
  if (options.key_file.empty()) return std::optional<StoreKeys>();
  auto key = read_store_key(options.key_file);
  if (!key) return fail(std::move(key.error()));
  StoreKeys keys{.key = *key, .randomness = {}};
  if (auto random = random_bytes(keys.randomness.bytes); !random) return fail(std::move(random.error()));
  return std::optional(keys);
}

// What the engine borrows, for as long as it lives.
struct Borrowed {
  SteadyClock clock;
  std::unique_ptr<Device> device;
};

}  // namespace

std::uint64_t store_cap_of(const StoreGeometry& geometry, std::uint64_t segments) {
  const std::uint64_t bytes = store_data_offset + segments * geometry.segment_bytes;
  return bytes + std::max<std::uint64_t>(64 * KiB, bytes / 4095 + store_page);
}

namespace {

std::string beside(const StorePath& path, const char* ending) {
  const std::string file = file_of(path);
  return file.starts_with("/dev/") ? std::string() : file + ending;
}

}  // namespace

std::string control_socket_of(const StorePath& path) {
  return beside(path, ".sock");
}

std::string attach_socket_of(const StorePath& path) {
  return beside(path, ".attach");
}

Status create_store(const StoreFilesOptions& options, bool overwrite) {
  if (options.paths.empty()) return fail(Code::invalid, "a store needs at least one path");
  const auto keys = keys_of(options);
  if (!keys) return fail(keys.error());
  const StoreGeometry geometry =
      chosen_geometry(options.geometry, std::ranges::min_element(options.paths, {}, &StorePath::bytes)->bytes);
  std::vector<File> files;
  for (const StorePath& path : options.paths) {
    auto file = open_locked(file_of(path), true, options);
    if (!file) return fail(std::move(file.error()));
    const auto size = file->size();
    if (!size) return fail(size.error());
    const bool block_device = file->block_device();
    if (!overwrite && (block_device || *size > 0)) {
      return fail(Code::rejected, "{}: is not empty; to make a store of it all the same says overwrite", file->path());
    }
    const std::uint64_t cap = block_device ? std::min(*size, path.bytes) : file_bytes_of(path.bytes);
    const std::uint64_t segments = (cap - std::min(cap, store_data_offset)) / geometry.segment_bytes;
    const std::uint64_t bytes = store_data_offset + segments * geometry.segment_bytes;
    if (segments < segments_min) {
      return fail(Code::invalid, "{}: a cap of {} is too small for {} segments of {}", file->path(), format_size(cap),
                  segments_min, format_size(geometry.segment_bytes));
    }
    if (!block_device) {
      if (auto cut = file->truncate(std::min(*size, bytes)); !cut) return cut;
      if (auto allocated = file->allocate(bytes); !allocated) return allocated;
    }
    files.push_back(std::move(*file));
  }
  StoreIdentity identity{.encryption = *keys ? &(*keys)->key : nullptr};
  identity.paths.resize(files.size());
  if (auto random = random_bytes(identity.store); !random) return random;
  if (auto random = random_bytes(identity.secret); !random) return random;
  for (Id& id : identity.paths) {
    if (auto random = random_bytes(id); !random) return random;
  }
  const SteadyClock clock;
  auto device = make_device(std::move(files), options, clock);
  if (!device) return fail(std::move(device.error()));
  return format_store(**device, geometry, identity);
}

Result<std::unique_ptr<Store>> open_store(const StoreFilesOptions& options) {
  auto engine = open_engine(options);
  if (!engine) return fail(std::move(engine.error()));
  return std::move(*engine);
}

Result<std::unique_ptr<Engine>> open_engine(const StoreFilesOptions& options) {
  auto keys = keys_of(options);
  if (!keys) return fail(std::move(keys.error()));
  std::vector<File> files;
  std::vector<Error> lost;
  for (const StorePath& path : options.paths) {
    const auto use = [&]() -> Status {
      auto file = open_locked(file_of(path), false, options);
      if (!file) return fail(std::move(file.error()));
      if (auto resized = resize(*file, path.bytes, *keys ? &(*keys)->key : nullptr); !resized) return resized;
      files.push_back(std::move(*file));
      return {};
    };
    auto used = use();
    if (used) continue;
    if (used.error().code == Code::invalid) return fail(std::move(used.error()));  // a wrong option, not a lost path
    lost.push_back(std::move(used.error()));
  }
  if (files.empty() && lost.empty()) return fail(Code::invalid, "a store needs at least one path");
  if (files.empty()) return fail(std::move(lost.front()));
  for (const Error& error : lost) {
    if (options.engine.report) options.engine.report(error.message + "; its blocks are not there");
  }
  auto borrowed = std::make_shared<Borrowed>();
  auto device = make_device(std::move(files), options, borrowed->clock);
  if (!device) return fail(std::move(device.error()));
  borrowed->device = std::move(*device);
  EngineSettings settings = options.engine;
  settings.keys = std::move(*keys);
  if (settings.unix_ms == 0) settings.unix_ms = unix_time_ms();
  return Engine::open(*borrowed->device, options.clock != nullptr ? *options.clock : borrowed->clock,
                      std::move(settings), borrowed);
}

}  // namespace artesian
