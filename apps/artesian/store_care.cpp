// artesian store compact, repair, export, import, pin, unpin, pins: what an owner does for a store now and then.
#include <cstdio>
#include <memory>

#include "base/units.h"
#include "commands.h"
#include "library/key_text.h"
#include "progress.h"
#include "store/archive.h"
#include "store_options.h"

namespace artesian::cli {
namespace {

Result<std::unique_ptr<Engine>> open(const StoreOptions& options) {
  return open_engine(files_of(options));
}

double part_of(std::uint64_t done, std::uint64_t all) {
  return all == 0 ? 1 : static_cast<double>(done) / static_cast<double>(all);
}

Result<int> compact(const StoreOptions& options, double below) {
  auto store = open(options);
  if (!store) return fail(std::move(store.error()));
  const StoreStats before = (*store)->stats();
  auto report = [&] {
    ProgressLine line;
    return (*store)->compact(below / 100, [&](const CompactReport& now) {
      line.show(part_of(now.segments, now.of), fmt::format("{} of {} segments", now.segments, now.of));
    });
  }();
  if (!report) return fail(std::move(report.error()));
  const StoreStats after = (*store)->stats();
  fmt::print("{} of {} segments were less than {} % live; {} emptied, {} carried forward; {} are free, {} were\n",
             report->of, after.segments, below, report->emptied, format_bytes(report->bytes_carried),
             after.segments_free, before.segments_free);
  return exit_ok;
}

Result<int> repair(const StoreOptions& options) {
  auto store = open(options);
  if (!store) return fail(std::move(store.error()));
  const StoreStats found = (*store)->stats();
  auto report = [&] {
    ProgressLine line;
    return (*store)->repair([&](const VerifyReport& now) {
      line.show(part_of(now.blocks, found.blocks), fmt::format("{} of {} blocks", now.blocks, found.blocks));
    });
  }();
  if (!report) return fail(std::move(report.error()));
  fmt::print("{} blocks, {}: {} were bad and are erased, {} broken records or indexes were passed over at opening\n",
             report->blocks, format_bytes(report->bytes), report->bad, found.records_skipped);
  return exit_ok;
}

Result<int> export_to(const StoreOptions& options, bool plain) {
  auto store = open(options);
  if (!store) return fail(std::move(store.error()));
  if (!options.key_file.empty() && !plain) {
    return fail(Code::invalid, "store export: the store is encrypted and {} would not be: --plain says that it may",
                options.file);
  }
  const auto file = File::open(options.file, {.write = true, .create = true});
  if (!file) return fail(file.error());
  const auto size = file->size();
  if (!size) return fail(size.error());
  if (*size != 0) return fail(Code::rejected, "store export: {}: is not empty", options.file);
  auto report = [&] {
    ProgressLine line;
    return export_store(**store, *file, [&](const ArchiveReport& now) {
      line.show(part_of(now.blocks, now.of), fmt::format("{} of {} blocks", now.blocks, now.of));
    });
  }();
  if (!report) return fail(std::move(report.error()));
  fmt::print("{} blocks of {} namespaces, {}; {} could not be read\n", report->blocks, report->namespaces,
             format_bytes(report->bytes), report->lost);
  return report->lost > 0 ? exit_missed : exit_ok;
}

Result<int> import_from(const StoreOptions& options) {
  const auto file = File::open(options.file, {});
  if (!file) return fail(file.error());
  auto store = open(options);
  if (!store) return fail(std::move(store.error()));
  auto report = [&] {
    ProgressLine line;
    return import_store(**store, *file, [&](const ArchiveReport& now) {
      line.show(part_of(now.bytes, now.of_bytes), fmt::format("{} blocks", now.blocks));
    });
  }();
  if (!report) return fail(std::move(report.error()));
  fmt::print("{} blocks of {} namespaces were taken, {} were there already, {} were refused\n", report->blocks,
             report->namespaces, report->present, report->lost);
  return report->lost > 0 ? exit_missed : exit_ok;
}

Result<int> pin(const StoreOptions& options, const std::string& name, const std::vector<std::string>& texts) {
  std::vector<std::vector<std::byte>> keys;
  for (const std::string& text : texts) {
    auto key = parse_key_text(text);
    if (!key) return fail(std::move(key.error()));
    keys.push_back(std::move(*key));
  }
  auto store = open(options);
  if (!store) return fail(std::move(store.error()));
  const auto ns = (*store)->open_namespace(options.ns);
  if (!ns) return fail(ns.error());
  std::vector<Probe> items;
  for (const auto& key : keys) items.push_back({.key = key});
  if (auto pinned = (*store)->pin_named(*ns, name, items); !pinned) return fail(std::move(pinned.error()));
  bool all = true;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (items[i].outcome == Outcome::hit) continue;
    all = false;
    fmt::print(stderr, "artesian: store pin: {}: {}\n", texts[i], outcome_name(items[i].outcome));
  }
  return all ? exit_ok : exit_missed;
}

Result<int> unpin(const StoreOptions& options, const std::string& name) {
  auto store = open(options);
  if (!store) return fail(std::move(store.error()));
  const auto ns = (*store)->open_namespace(options.ns);
  if (!ns) return fail(ns.error());
  const auto unpinned = (*store)->unpin_named(*ns, name);
  if (unpinned) return exit_ok;
  if (unpinned.error().code != Code::not_found) return fail(unpinned.error());
  fmt::print(stderr, "artesian: store unpin: {}\n", unpinned.error().message);
  return exit_missed;
}

Result<int> pins(const StoreOptions& options) {
  auto store = open(options);
  if (!store) return fail(std::move(store.error()));
  const auto spaces = (*store)->namespaces();
  for (const PinFacts& facts : (*store)->named_pins()) {
    const auto space = std::ranges::find(spaces, facts.ns, &NamespaceFacts::id);
    fmt::print("{:>8} blocks {:>10}  {}  {}\n", facts.blocks, format_bytes(facts.bytes), facts.name,
               space == spaces.end() ? "" : space->text);
  }
  return exit_ok;
}

}  // namespace

Action setup_store_compact(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  const auto below = std::make_shared<double>(75);
  command.add_option("--below", *below, "Empty segments that are live to less than so many percent")
      ->check(CLI::Range(1.0, 100.0))
      ->capture_default_str();
  set_examples(command,
               {"artesian store compact --path /mnt/nvme/kv", "artesian store compact --path /mnt/nvme/kv --below 50"});
  return [options, below] { return compact(*options, *below); };
}

Action setup_store_repair(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  set_examples(command, {"artesian store repair --path /mnt/nvme/kv"});
  return [options] { return repair(*options); };
}

Action setup_store_export(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  const auto plain = std::make_shared<bool>(false);
  command.add_option("FILE", options->file, "A new file, for its owner alone")->required();
  command.add_flag("--plain", *plain, "Also of an encrypted store, though the file will not be");
  set_examples(command, {"artesian store export --path /mnt/nvme/kv blocks.artesian"});
  return [options, plain] { return export_to(*options, *plain); };
}

Action setup_store_import(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  command.add_option("FILE", options->file, "What store export wrote")->required();
  set_examples(command, {"artesian store import --path /mnt/other/kv blocks.artesian"});
  return [options] { return import_from(*options); };
}

Action setup_store_pin(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  add_store_namespace(command, *options);
  const auto keys = std::make_shared<std::vector<std::string>>();
  command.add_option("NAME", options->key, "Of the pin, up to 64 bytes; more blocks may be added to one that is there")
      ->required();
  command.add_option("KEY", *keys, "Blocks that stay: text, or hex: and pairs of digits")->required();
  set_examples(command,
               {"artesian store pin --path /mnt/nvme/kv --weights sha256:77ab system-prompt greeting hex:00ff"});
  return [options, keys] { return pin(*options, options->key, *keys); };
}

Action setup_store_unpin(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  add_store_namespace(command, *options);
  command.add_option("NAME", options->key, "Of the pin")->required();
  set_examples(command, {"artesian store unpin --path /mnt/nvme/kv --weights sha256:77ab system-prompt"});
  return [options] { return unpin(*options, options->key); };
}

Action setup_store_pins(CLI::App& command, const Context&) {
  const StoreOptionsPtr options = add_store_paths(command);
  set_examples(command, {"artesian store pins --path /mnt/nvme/kv"});
  return [options] { return pins(*options); };
}

}  // namespace artesian::cli
