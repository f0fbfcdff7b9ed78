// artesian store: makes a KV store, shows and verifies what is in it, and moves single blocks between it and files.
#include "commands.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>

#include "base/units.h"
#include "library/control.h"
#include "library/key_text.h"
#include "platform/arena.h"
#include "platform/file.h"
#include "store_options.h"

namespace artesian::cli {
namespace {

Result<int> init(const StoreOptions& options) {
  if (auto made = create_store(files_of(options), options.overwrite); !made) return fail(std::move(made.error()));
  std::printf("A store of %s in %zu path%s.\n", format_size(options.size * options.paths.size()).c_str(),
              options.paths.size(), options.paths.size() == 1 ? "" : "s");
  return exit_ok;
}

// The answer to a question about the store, line by line: from the process that has it open, else from its files.
Status ask(const StoreOptions& options, const StoreQuestion& question,
           const std::function<void(const nlohmann::json&)>& take) {
  const StoreFilesOptions files = files_of(options);
  const std::string socket = control_socket_of(files.paths.front());
  if (!socket.empty()) {
    const auto asked =
        ask_owner(socket, question, [&](std::string_view line) { take(nlohmann::json::parse(line, nullptr, false)); });
    if (asked || asked.error().code != Code::not_found) return asked;
  }
  auto store = open_store(files);
  if (!store) return fail(std::move(store.error()));
  return store_answer(**store, question, [&](const std::string& line) {
    take(nlohmann::json::parse(line));
    return true;
  });
}

std::uint64_t number(const nlohmann::json& line, const char* name) {
  return line.is_object() ? line.value(name, std::uint64_t{0}) : 0;
}

// At the rate so far, which a day at least has shown.
std::string life_text(std::uint64_t endurance, double bytes_a_day) {
  const double years = static_cast<double>(endurance) / bytes_a_day / 365.25;
  const std::string drive = "drives that are rated for " + format_bytes(endurance);
  return years >= 1000 ? fmt::format("{} last for ever at this rate\n", drive)
                       : fmt::format("{} last {:.1f} years at this rate\n", drive, years);
}

// What the drive takes, and what of it is slow.
std::string speed_text(const nlohmann::json& stats) {
  std::string text;
  const auto line = [&](const char* what, std::uint64_t half, std::uint64_t most) {
    if (half > 0) text += fmt::format("{}: half within {} us, 99 of 100 within {} us\n", what, half, most);
  };
  const std::uint64_t reads = number(stats, "read_us_p50"), reads_most = number(stats, "read_us_p99");
  line("reads of the drive", reads, reads_most);
  line("writes to it", number(stats, "write_us_p50"), number(stats, "write_us_p99"));
  std::vector<std::string> slow;
  constexpr std::uint64_t far_apart = 10;
  if (reads > 0 && reads_most >= far_apart * reads)
    slow.push_back("one read in a hundred takes ten times as long as most");
  if (const auto late = number(stats, "late"); late > 0) slow.push_back(fmt::format("{} requests came too late", late));
  if (const auto shed = number(stats, "shed"); shed > 0) slow.push_back(fmt::format("{} puts were shed", shed));
  if (reads > 0 || !slow.empty())
    text += fmt::format("slow: {}\n", slow.empty() ? "nothing" : fmt::format("{}", fmt::join(slow, "; ")));
  return text;
}

// In words: what is written a day, and what may be.
std::string writes_text(const nlohmann::json& stats) {
  const double days = stats.value("age_seconds", 0.0) / 86'400;
  const std::uint64_t written = number(stats, "written_bytes"), budget = number(stats, "write_bytes_per_day");
  std::string text = format_bytes(written) + " written";
  const double a_day = static_cast<double>(written) / days;
  if (days >= 1)
    text += fmt::format(" in {:.0f} days, {} a day", days, format_bytes(static_cast<std::uint64_t>(a_day)));
  if (days > 0 && days < 1) text += fmt::format(" in {:.1f} hours", days * 24);
  if (budget == 0) return text + "; there is no budget";
  text += fmt::format("; the budget is {} a day", format_bytes(budget));
  // Of less than a day, what a day may write is the measure.
  const double part = static_cast<double>(written) / std::max(days, 1.0) / static_cast<double>(budget);
  return text + fmt::format(" ({:.1f} % of it)", 100 * part);
}

std::string stat_text(const nlohmann::json& stats, std::size_t paths, std::uint64_t endurance) {
  const auto share = [](std::uint64_t part, std::uint64_t of) {
    return of == 0 ? 0.0 : 100.0 * static_cast<double>(part) / static_cast<double>(of);
  };
  const std::uint64_t live = number(stats, "live_bytes"), capacity = number(stats, "capacity_bytes");
  std::string text = fmt::format("{} blocks, {} of {} ({:.1f} %) in use\n", number(stats, "blocks"), format_size(live),
                                 format_size(capacity), share(live, capacity));
  text += fmt::format("{} of {} segments are free; {} of {} paths are in use\n", number(stats, "segments_free"),
                      number(stats, "segments"), number(stats, "paths") - number(stats, "paths_failed"), paths);
  text += writes_text(stats) + "\n";
  const double days = stats.value("age_seconds", 0.0) / 86'400;
  if (const std::uint64_t written = number(stats, "written_bytes"); endurance > 0 && written > 0) {
    text += life_text(endurance, static_cast<double>(written) / std::max(days, 1.0));
  }
  const std::uint64_t hits = number(stats, "hits"), gets = hits + number(stats, "misses");
  if (gets > 0) {
    text += fmt::format("{} of {} gets were hits ({:.1f} %), {} of them from memory; {} bad, {} late, {} puts shed\n",
                        hits, gets, share(hits, gets), number(stats, "memory_hits"), number(stats, "corrupt"),
                        number(stats, "late"), number(stats, "shed"));
  }
  text += speed_text(stats);
  text += fmt::format("the index takes {} of memory\n", format_size(number(stats, "index_bytes")));
  if (const std::uint64_t skipped = number(stats, "records_skipped"); skipped > 0) {
    text += fmt::format("{} broken records were skipped\n", skipped);
  }
  for (const auto& ns : stats.value("namespaces", nlohmann::json::array())) text += "namespace " + ns.dump() + "\n";
  return text;
}

Result<int> stat(const StoreOptions& options) {
  const auto asked = ask(options, {.op = "stat"}, [&](const nlohmann::json& stats) {
    fmt::print("{}", options.json ? stats.dump() + "\n" : stat_text(stats, options.paths.size(), options.endurance));
  });
  if (!asked) return fail(asked.error());
  return exit_ok;
}

Result<int> list(const StoreOptions& options) {
  nlohmann::json space;
  const auto asked = ask(options, {.op = "ls"}, [&](const nlohmann::json& block) {
    if (options.json) {
      fmt::print("{}\n", block.dump());
      return;
    }
    if (block.value("namespace", nlohmann::json()) != space) {
      space = block.value("namespace", nlohmann::json());
      fmt::print("# {}\n", space.dump());
    }
    fmt::print("{:>12}  {}\n", number(block, "bytes"), block.value("key", ""));
  });
  if (!asked) return fail(asked.error());
  return exit_ok;
}

Result<int> verify(const StoreOptions& options) {
  nlohmann::json last;
  const auto asked = ask(options, {.op = "verify"}, [&](const nlohmann::json& now) {
    last = now;
    fmt::print(stderr, "\r{} of {} blocks, {}", number(now, "blocks"), number(now, "of"),
               format_bytes(number(now, "bytes")));
  });
  if (!last.is_null()) fmt::print(stderr, "\n");
  if (!asked) return fail(asked.error());
  last.erase("of");
  const std::uint64_t bad = number(last, "bad"), skipped = number(last, "records_skipped");
  if (options.json) {
    fmt::print("{}\n", last.dump());
  } else {
    fmt::print("{} blocks, {}: {} bad, {} records skipped at opening\n", number(last, "blocks"),
               format_bytes(number(last, "bytes")), bad, skipped);
  }
  return bad + skipped > 0 ? exit_missed : exit_ok;
}

struct OpenBlock {
  std::unique_ptr<Store> store;
  NamespaceId ns = 0;
  std::vector<std::byte> key;
};

Result<OpenBlock> open_block(const StoreOptions& options) {
  auto key = parse_key_text(options.key);
  if (!key) return fail(std::move(key.error()));
  auto store = open_store(files_of(options));
  if (!store) return fail(std::move(store.error()));
  const auto ns = (*store)->open_namespace(options.ns);
  if (!ns) return fail(ns.error());
  return OpenBlock{.store = std::move(*store), .ns = *ns, .key = std::move(*key)};
}

Result<int> put(const StoreOptions& options) {
  const auto file = File::open(options.file, {});
  if (!file) return fail(file.error());
  const auto bytes = file->size();
  if (!bytes) return fail(bytes.error());
  if (*bytes == 0 || *bytes > block_bytes_limit) {
    return fail(Code::invalid, "store put: {}: has {} bytes, a block has 1 to {}", options.file, *bytes,
                block_bytes_limit);
  }
  auto memory = Arena::reserve(*bytes);
  if (!memory) return fail(std::move(memory.error()));
  const auto data = memory->span().first(*bytes);
  if (auto read = file->read(0, data); !read) return fail(std::move(read.error()));
  auto open = open_block(options);
  if (!open) return fail(std::move(open.error()));
  Put item{.key = open->key, .data = data};
  open->store->put(open->ns, std::span(&item, 1));
  if (item.outcome != Outcome::stored && item.outcome != Outcome::present) {
    const Code code = item.outcome == Outcome::invalid ? Code::invalid : Code::rejected;
    return fail(code, "store put: {}: {} ({} bytes)", options.key, outcome_name(item.outcome), *bytes);
  }
  if (auto flushed = open->store->flush(); !flushed) return fail(std::move(flushed.error()));
  std::printf("%s: %s\n", options.key.c_str(), outcome_name(item.outcome));
  return exit_ok;
}

Result<int> get(const StoreOptions& options) {
  auto open = open_block(options);
  if (!open) return fail(std::move(open.error()));
  auto memory = Arena::reserve(block_bytes_limit);
  if (!memory) return fail(std::move(memory.error()));
  Get item{.key = open->key, .buffer = memory->span()};
  open->store->get(open->ns, std::span(&item, 1));
  if (item.outcome != Outcome::hit) {
    std::fprintf(stderr, "artesian: store get: %s: %s\n", options.key.c_str(), outcome_name(item.outcome));
    return exit_missed;
  }
  const auto file = File::open(options.file, {.write = true, .create = true});
  if (!file) return fail(file.error());
  if (auto cut = file->truncate(0); !cut) return fail(std::move(cut.error()));
  if (auto written = file->write(0, memory->span().first(item.bytes)); !written)
    return fail(std::move(written.error()));
  return exit_ok;
}

Result<int> remove(const StoreOptions& options) {
  auto open = open_block(options);
  if (!open) return fail(std::move(open.error()));
  Probe item{.key = open->key};
  open->store->erase(open->ns, std::span(&item, 1));
  if (item.outcome != Outcome::hit) {
    std::fprintf(stderr, "artesian: store rm: %s: %s\n", options.key.c_str(), outcome_name(item.outcome));
    return exit_missed;
  }
  if (auto flushed = open->store->flush(); !flushed) return fail(std::move(flushed.error()));
  return exit_ok;
}

void add_json(CLI::App& command, StoreOptions& options, const std::string& what) {
  command.add_flag("--json", options.json, what);
}

}  // namespace

Action setup_store_init(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  add_size(command, "--size", options->size, "Cap of each path, all metadata included; taken at once")->required();
  add_size(command, "--segment", options->geometry.segment_bytes,
           "Size of a segment: the drive's reclaim unit where it is known; else a 32nd of the cap, 4M to 256M");
  add_size(command, "--block-max", options->geometry.block_bytes_max,
           "The largest block; if not given half a segment, 16M at most");
  add_size(command, "--write-budget", options->geometry.write_bytes_per_day,
           "Bytes that may be written a day, carried forward and frames with them; none if not given");
  command.add_flag("--overwrite", options->overwrite, "Also over a file that is not empty, or a block device");
  set_examples(command, {"artesian store init --path /mnt/nvme/kv --size 200G --write-budget 500G",
                         "artesian store init --path /mnt/nvme/kv --size 200G --key-file ~/.config/kv.key",
                         "artesian store init --path /mnt/a --path /mnt/b --size 1T --segment 1G --block-max 64M"});
  return [options] { return init(*options); };
}

Action setup_store_stat(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  add_json(command, *options, "One JSON object");
  add_size(command, "--endurance", options->endurance,
           "Bytes that the drives are rated for together (TBW), to tell how long they last");
  set_examples(command,
               {"artesian store stat --path /mnt/nvme/kv", "artesian store stat --path /mnt/nvme/kv --endurance 600T"});
  return [options] { return stat(*options); };
}

Action setup_store_ls(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  add_json(command, *options, "A JSON object for each block, a line each");
  set_examples(command, {"artesian store ls --path /mnt/nvme/kv", "artesian store ls --path /mnt/nvme/kv --json"});
  return [options] { return list(*options); };
}

Action setup_store_verify(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  add_json(command, *options, "One JSON object");
  set_examples(command, {"artesian store verify --path /mnt/nvme/kv"});
  return [options] { return verify(*options); };
}

Action setup_store_put(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  add_store_namespace(command, *options);
  command.add_option("KEY", options->key, "Text, or hex: and pairs of digits")->required();
  command.add_option("FILE", options->file, "Its content becomes the block")->required();
  set_examples(command, {"artesian store put --path /mnt/nvme/kv --weights sha256:77ab greeting block.bin"});
  return [options] { return put(*options); };
}

Action setup_store_get(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  add_store_namespace(command, *options);
  command.add_option("KEY", options->key, "Text, or hex: and pairs of digits")->required();
  command.add_option("FILE", options->file, "Is written, and made if it is not there")->required();
  set_examples(command, {"artesian store get --path /mnt/nvme/kv --weights sha256:77ab greeting back.bin"});
  return [options] { return get(*options); };
}

Action setup_store_rm(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  add_store_namespace(command, *options);
  command.add_option("KEY", options->key, "Text, or hex: and pairs of digits")->required();
  set_examples(command, {"artesian store rm --path /mnt/nvme/kv --weights sha256:77ab greeting"});
  return [options] { return remove(*options); };
}

}  // namespace artesian::cli
