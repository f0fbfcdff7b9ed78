// What the engine's tests share: a store in the memory of a device, and blocks whose bytes tell whose they are.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "device/memory_device.h"
#include "store/engine.h"

namespace artesian {

constexpr StoreGeometry small_geometry{.segment_bytes = 256 * KiB, .block_bytes_max = 192 * KiB};

inline std::vector<std::byte> key_of(std::uint64_t number) {
  const std::string text = fmt::format("block {:030}", number);  // 36 bytes, as vLLM's
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

// The bytes of version `version` of block `number`: none like any other's.
inline void fill_block(std::uint64_t number, std::uint64_t version, std::span<std::byte> out) {
  std::uint64_t state = (number + 1) * 0x9E3779B97F4A7C15U ^ (version + 1) * 0xD1B54A32D192ED03U;
  for (std::size_t at = 0; at < out.size(); at += 8) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    const std::uint64_t word = state ^ (state >> 29);
    std::memcpy(out.data() + at, &word, std::min<std::size_t>(8, out.size() - at));
  }
}

inline bool is_block(std::uint64_t number, std::uint64_t version, std::span<const std::byte> bytes) {
  std::vector<std::byte> right(bytes.size());
  fill_block(number, version, right);
  return std::ranges::equal(right, bytes);
}

inline StoreIdentity some_identity(std::size_t paths, unsigned seed = 1) {
  StoreIdentity identity;
  identity.store.fill(static_cast<std::byte>(seed));
  for (std::size_t i = 0; i < identity.secret.size(); ++i) identity.secret[i] = static_cast<std::byte>(i * 37 + seed);
  for (std::size_t i = 0; i < paths; ++i) {
    Id id{};
    id.fill(static_cast<std::byte>(10 + i));
    identity.paths.push_back(id);
  }
  return identity;
}

// A suite's stores, plain or encrypted: the same suites hold both.
class StoreKind {
 public:
  explicit StoreKind(bool encrypted) : encrypted_(encrypted) {
    for (std::size_t i = 0; i < key_.bytes.size(); ++i) key_.bytes[i] = static_cast<std::byte>(i * 7 + 1);
  }

  StoreIdentity identity(std::size_t paths, unsigned seed = 1) const {
    StoreIdentity identity = some_identity(paths, seed);
    if (encrypted_) identity.encryption = &key_;
    return identity;
  }
  // For an opening: each draws other randomness.
  EngineSettings settings(EngineSettings settings = {}) {
    settings.part_bytes_min = 8 * KiB;  // so that reads are split here, too
    if (!encrypted_) return settings;
    StoreKeys keys{.key = key_, .randomness = {}};
    const std::uint64_t opening = ++openings_;
    std::memcpy(keys.randomness.bytes.data(), &opening, sizeof opening);
    settings.keys = keys;
    return settings;
  }
  static std::string name(const testing::TestParamInfo<bool>& info) { return info.param ? "Encrypted" : "Plain"; }

 private:
  bool encrypted_;
  SecretKey key_;
  std::uint64_t openings_ = 0;
};

inline std::vector<std::vector<std::byte>> empty_files(std::size_t paths, std::uint32_t segments,
                                                       const StoreGeometry& geometry = small_geometry) {
  return {paths, std::vector<std::byte>(store_data_offset + segments * geometry.segment_bytes)};
}

inline NamespaceFields some_fields(const std::string& model = "m") {
  return {.model = model, .weights = "sha256:1", .dtype = "bf16", .layout = "k then v", .block_tokens = 16};
}

// Calls on one block at a time, for readable tests.
class OneByOne {
 public:
  OneByOne(Store& store, NamespaceId ns) : store_(store), ns_(ns), memory_(Arena::reserve(1 * MiB).value()) {}

  Outcome put(std::uint64_t number, std::uint64_t bytes, std::uint64_t version = 0, std::uint8_t lifetime = 0) {
    const auto key = key_of(number);
    const auto data = memory_.span().first(bytes);
    fill_block(number, version, data);
    Put item{.key = key, .data = data, .hints = {.lifetime = lifetime}};
    store_.put(ns_, std::span(&item, 1), {});
    return item.outcome;
  }

  // A hit whose bytes are not those of a version in `versions` is a failure of the test.
  Outcome get(std::uint64_t number, std::vector<std::uint64_t> versions = {0}) {
    const auto key = key_of(number);
    std::ranges::fill(memory_.span().first(256 * KiB), std::byte{0xEE});
    Get item{.key = key, .buffer = memory_.span().first(256 * KiB)};
    store_.get(ns_, std::span(&item, 1), {});
    const auto bytes = memory_.span().first(item.outcome == Outcome::hit ? item.bytes : 256 * KiB);
    if (item.outcome == Outcome::hit) {
      version_ = UINT64_MAX;
      for (const std::uint64_t version : versions) {
        if (is_block(number, version, bytes)) version_ = version;
      }
      EXPECT_NE(version_, UINT64_MAX) << "block " << number << " has wrong bytes";
      bytes_ = item.bytes;
    }
    if (item.outcome == Outcome::corrupt || item.outcome == Outcome::failed) {
      EXPECT_TRUE(std::ranges::all_of(bytes, [](std::byte value) { return value == std::byte{0}; }));
    }
    return item.outcome;
  }
  std::uint64_t version() const { return version_; }  // of the last hit
  std::uint64_t bytes() const { return bytes_; }

  Outcome erase(std::uint64_t number) { return probe(number, &Store::erase); }
  Outcome exists(std::uint64_t number) { return probe(number, &Store::exists); }
  Outcome pin(std::uint64_t number) { return probe(number, &Store::pin); }
  void unpin(std::uint64_t number) {
    const auto key = key_of(number);
    const std::span<const std::byte> one = key;
    store_.unpin(ns_, std::span(&one, 1));
  }

 private:
  Outcome probe(std::uint64_t number, void (Store::*call)(NamespaceId, std::span<Probe>)) {
    const auto key = key_of(number);
    Probe item{.key = key};
    (store_.*call)(ns_, std::span(&item, 1));
    return item.outcome;
  }

  Store& store_;
  NamespaceId ns_;
  Arena memory_;
  std::uint64_t version_ = 0, bytes_ = 0;
};

// The bytes of an empty store of one path, for devices that are made with what lies on them.
inline std::vector<std::vector<std::byte>> formatted_files(const StoreKind& kind, std::uint32_t segments,
                                                           const StoreGeometry& geometry = small_geometry) {
  std::vector<std::vector<std::byte>> content = empty_files(1, segments, geometry);
  MemoryDevice device(content);
  EXPECT_TRUE(format_store(device, geometry, kind.identity(1)));
  auto whole = Arena::reserve(content[0].size()).value();
  const IoRequest all{.buffer = whole.span().first(content[0].size())};
  EXPECT_TRUE(device.submit(std::span(&all, 1)));
  std::array<IoCompletion, 1> done;
  EXPECT_EQ(device.poll(done), 1U);
  std::ranges::copy(all.buffer, content[0].begin());
  return content;
}

// A store in the memory of a device, opened, and opened anew.
class EngineRig {
 protected:
  explicit EngineRig(bool encrypted) : kind_(encrypted) {}

  void make(std::size_t paths = 1, std::uint32_t segments = 8) {
    device_ = std::make_unique<MemoryDevice>(empty_files(paths, segments));
    const auto formatted = format_store(*device_, small_geometry, kind_.identity(paths));
    ASSERT_TRUE(formatted) << formatted.error().message;
    reopen();
  }

  void reopen() {
    one_.reset();
    engine_.reset();
    auto engine = Engine::open(*device_, clock_, kind_.settings(settings_));
    ASSERT_TRUE(engine) << engine.error().message;
    engine_ = std::move(*engine);
    auto ns = engine_->open_namespace(some_fields(model_));
    ASSERT_TRUE(ns) << ns.error().message;
    ns_ = *ns;
    one_ = std::make_unique<OneByOne>(*engine_, ns_);
  }

  void raw(IoOp op, FileIndex file, std::uint64_t offset, std::span<std::byte> buffer) {
    const IoRequest request{.op = op, .file = file, .offset = offset, .buffer = buffer};
    ASSERT_TRUE(device_->submit(std::span(&request, 1)));
    std::array<IoCompletion, 1> done;
    ASSERT_EQ(device_->poll(done), 1U);
  }

  // Flips a bit of what lies at an offset of the first path.
  void flip(std::uint64_t offset, unsigned bit = 3) {
    auto page = Arena::reserve(store_page).value();
    const auto bytes = page.span().first(store_page);
    raw(IoOp::read, 0, align_down(offset, store_page), bytes);
    bytes[offset % store_page] ^= static_cast<std::byte>(1U << bit);
    raw(IoOp::write, 0, align_down(offset, store_page), bytes);
  }

  StoreKind kind_;
  std::string model_ = "m";
  EngineSettings settings_;
  ManualClock clock_;
  std::unique_ptr<MemoryDevice> device_;
  std::unique_ptr<Engine> engine_;
  NamespaceId ns_ = 0;
  std::unique_ptr<OneByOne> one_;
};

}  // namespace artesian
