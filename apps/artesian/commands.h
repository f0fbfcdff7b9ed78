// The registry of commands of the `artesian` program. A new command is one file with one setup function, and one row in
// the table in commands.cpp. A setup function describes its options, examples and defaults to CLI11 and returns the
// action that main() runs when the command was chosen; it does nothing else, since completion sets all of them up.
#pragma once

#include <CLI/CLI.hpp>

#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace artesian::cli {

// What main() takes from outside; nothing else of the program reads the environment.
struct Context {
  std::string search_path;                // PATH
  std::string runtime_dir;                // XDG_RUNTIME_DIR
  std::string cache_dir;                  // XDG_CACHE_HOME, or ~/.cache
  std::string traces;                     // ARTESIAN_TRACES: the folder with recorded traces
  std::string engine_bin;                 // ARTESIAN_ENGINE_BIN: the folder with llama.cpp's programs
  std::string model;                      // ARTESIAN_MODEL: a real model
  std::string preload;                    // LD_PRELOAD
  std::string library_path;               // LD_LIBRARY_PATH
  std::string server_host, server_port;   // LLAMA_ARG_HOST, LLAMA_ARG_PORT
  std::string server_api_key;             // LLAMA_API_KEY
  std::string server_cache_ram;           // LLAMA_ARG_CACHE_RAM
  std::vector<std::string> after_dashes;  // what followed the first "--", if there was one
  bool has_dashes = false;
};

// Exit codes of every command; `run` passes its program's on.
constexpr int exit_ok = 0;
constexpr int exit_missed = 1;  // a goal missed, a comparison failed, the thing asked for is not there
constexpr int exit_usage = 2;   // wrong usage or bad input

// An action reports its own results; an error becomes one sentence on stderr and exit_usage for invalid, not_found and
// corrupt, exit_missed for the rest.
using Action = std::function<Result<int>()>;
using Setup = Action (*)(CLI::App& command, const Context& context);

struct CommandInfo {
  std::string_view name;     // words: "run", or "bench device" for a command of a group
  std::string_view summary;  // one line for --help, in the imperative
  Setup setup;
};

struct GroupInfo {
  std::string_view name, summary;  // "bench"
};

std::span<const CommandInfo> commands();
std::span<const GroupInfo> groups();

// The whole tree, and for each command the action behind it.
struct Tree {
  std::unique_ptr<CLI::App> app;
  std::vector<std::pair<const CLI::App*, Action>> actions;
};
Tree make_tree(const Context& context);

// For options that take sizes as people write them ("8G", "900M").
CLI::Option* add_size(CLI::App& command, const std::string& name, std::uint64_t& bytes, const std::string& help);
// The same, may be given again and again.
CLI::Option* add_sizes(CLI::App& command, const std::string& name, std::vector<std::uint64_t>& bytes,
                       const std::string& help);
// Examples below the options.
void set_examples(CLI::App& command, std::initializer_list<std::string_view> lines);

// The commands, one file each.
Action setup_advise(CLI::App& command, const Context& context);
Action setup_run(CLI::App& command, const Context& context);
Action setup_serve(CLI::App& command, const Context& context);
Action setup_contexts_ls(CLI::App& command, const Context& context);
Action setup_contexts_rm(CLI::App& command, const Context& context);
Action setup_contexts_pin(CLI::App& command, const Context& context);
Action setup_contexts_unpin(CLI::App& command, const Context& context);
Action setup_contexts_warm(CLI::App& command, const Context& context);
Action setup_stat(CLI::App& command, const Context& context);
Action setup_inspect(CLI::App& command, const Context& context);
Action setup_bench_device(CLI::App& command, const Context& context);
Action setup_bench_store(CLI::App& command, const Context& context);
Action setup_bench_gateway(CLI::App& command, const Context& context);
Action setup_bench_policy(CLI::App& command, const Context& context);
Action setup_bench_weights(CLI::App& command, const Context& context);
Action setup_store_init(CLI::App& command, const Context& context);
Action setup_store_stat(CLI::App& command, const Context& context);
Action setup_store_ls(CLI::App& command, const Context& context);
Action setup_store_verify(CLI::App& command, const Context& context);
Action setup_store_put(CLI::App& command, const Context& context);
Action setup_store_get(CLI::App& command, const Context& context);
Action setup_store_rm(CLI::App& command, const Context& context);
Action setup_store_serve(CLI::App& command, const Context& context);
Action setup_store_pin(CLI::App& command, const Context& context);
Action setup_store_unpin(CLI::App& command, const Context& context);
Action setup_store_pins(CLI::App& command, const Context& context);
Action setup_store_compact(CLI::App& command, const Context& context);
Action setup_store_repair(CLI::App& command, const Context& context);
Action setup_store_export(CLI::App& command, const Context& context);
Action setup_store_import(CLI::App& command, const Context& context);
Action setup_replay(CLI::App& command, const Context& context);
Action setup_nand_profiles(CLI::App& command, const Context& context);
Action setup_nand_run(CLI::App& command, const Context& context);
Action setup_nand_compare(CLI::App& command, const Context& context);
Action setup_nand_check(CLI::App& command, const Context& context);
Action setup_completion(CLI::App& command, const Context& context);

}  // namespace artesian::cli
