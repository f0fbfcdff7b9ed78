// artesian-peer-rocksdb put|get FOLDER BYTES COUNT DEPTH SECONDS: blocks in RocksDB with blob files, set up to be as
// fast as it can be for blocks that are read at random and durable after one flush. One line of JSON says what came of
// it.
#include <rocksdb/db.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <charconv>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "bench/store_subjects.h"
#include "platform/clock.h"
#include "platform/thread_executor.h"

namespace {

using namespace artesian;
using namespace artesian::bench;

struct Task {
  bool put = false;
  std::string folder;
  std::uint64_t bytes = 0, count = 0;
  std::uint32_t depth = 1;
  double seconds = 1;
};

std::string key_of(std::uint64_t number) {
  return fmt::format("block   {:016x}", number);
}

rocksdb::Options options_for(const Task& task) {
  rocksdb::Options options;
  options.create_if_missing = task.put;
  options.enable_blob_files = true;
  options.min_blob_size = 0;
  options.blob_file_size = 256 * MiB;
  options.compression = rocksdb::kNoCompression;
  options.use_direct_reads = true;
  options.use_direct_io_for_flush_and_compaction = true;
  options.write_buffer_size = 256 * MiB;
  options.max_background_jobs = 4;
  rocksdb::BlockBasedTableOptions table;
  table.no_block_cache = false;  // of the index alone: values are in blob files, which nothing caches
  options.table_factory.reset(rocksdb::NewBlockBasedTableFactory(table));
  return options;
}

Status told(const rocksdb::Status& status) {
  return status.ok() ? Status{} : fail(Code::device_failed, "RocksDB: {}", status.ToString());
}

Status put_one(rocksdb::DB& db, const BlockPattern& pattern, std::uint64_t number) {
  rocksdb::WriteOptions write;
  write.disableWAL = true;
  const auto block = pattern.of(number);
  return told(db.Put(write, key_of(number), {reinterpret_cast<const char*>(block.data()), block.size()}));
}

Status get_one(rocksdb::DB& db, const BlockPattern& pattern, const Task& task, std::uint64_t number, Tally& tally) {
  rocksdb::ReadOptions read;
  rocksdb::PinnableSlice value;
  const auto status = db.Get(read, db.DefaultColumnFamily(), key_of(number), &value);
  if (status.IsNotFound()) {
    ++tally.missing;
    return {};
  }
  if (!status.ok()) return told(status);
  const auto bytes = std::as_bytes(std::span(value.data(), value.size()));
  if (bytes.size() != task.bytes || !pattern.first_page_is(number, bytes)) ++tally.wrong;
  tally.bytes += bytes.size();
  return {};
}

Result<Tally> work(const Task& task) {
  auto pattern = BlockPattern::make(task.bytes);
  if (!pattern) return fail(std::move(pattern.error()));
  rocksdb::DB* opened = nullptr;
  const auto status = rocksdb::DB::Open(options_for(task), task.folder, &opened);
  if (!status.ok()) return fail(Code::device_failed, "{}: {}", task.folder, status.ToString());
  const std::unique_ptr<rocksdb::DB> db(opened);
  auto executor = ThreadExecutor::open(task.depth);
  if (!executor) return fail(std::move(executor.error()));
  const SteadyClock clock;
  const Nanos begin = clock.now(), end = begin + Nanos(static_cast<std::int64_t>(task.seconds * 1e9));
  std::atomic<std::uint64_t> next = 0;
  auto tally = on_threads(task.depth, **executor, [&](std::uint32_t worker, Tally& own) -> Status {
    std::mt19937_64 random(worker);
    for (;;) {
      const Nanos begun = clock.now();
      const std::uint64_t number = task.put ? next++ : random() % task.count;
      if (task.put ? number >= task.count : begun >= end) return {};
      const auto did = task.put ? put_one(*db, *pattern, number) : get_one(*db, *pattern, task, number, own);
      if (!did) return did;
      own.latencies_us.push_back(static_cast<double>((clock.now() - begun).count()) / 1e3);
      ++own.blocks;
      if (task.put) own.bytes += task.bytes;
    }
  });
  if (!tally) return tally;
  if (task.put) {
    if (auto flushed = told(db->Flush({})); !flushed) return fail(std::move(flushed.error()));
  }
  tally->time = clock.now() - begin;
  return tally;
}

template <typename Number>
bool parse(const char* text, Number& number) {
  const std::string_view all(text);
  return std::from_chars(all.data(), all.data() + all.size(), number).ec == std::errc();
}

}  // namespace

int main(int argc, char** argv) {
  Task task;
  const bool known = argc == 7 && (std::string_view(argv[1]) == "put" || std::string_view(argv[1]) == "get");
  if (!known || !parse(argv[3], task.bytes) || !parse(argv[4], task.count) || !parse(argv[5], task.depth) ||
      !parse(argv[6], task.seconds) || task.bytes == 0 || task.count == 0 || task.depth == 0) {
    std::fprintf(stderr, "usage: artesian-peer-rocksdb put|get FOLDER BYTES COUNT DEPTH SECONDS\n");
    return 2;
  }
  task.put = std::string_view(argv[1]) == "put";
  task.folder = argv[2];
  const auto tally = work(task);
  if (!tally) {
    std::fprintf(stderr, "artesian-peer-rocksdb: %s\n", tally.error().message.c_str());
    return 1;
  }
  const nlohmann::json said{{"bytes", tally->bytes},
                            {"blocks", tally->blocks},
                            {"seconds", static_cast<double>(tally->time.count()) / 1e9},
                            {"p99_us", tally->sample().p99_us},
                            {"wrong", tally->wrong},
                            {"missing", tally->missing}};
  std::printf("%s\n", said.dump().c_str());
  return 0;
}
