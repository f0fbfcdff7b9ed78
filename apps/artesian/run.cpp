// artesian run: starts a llama.cpp program with the shim in front and the plugin named, and says at its end what
// happened.
#include <cstdio>
#include <memory>

#include "base/units.h"
#include "closing_line.h"
#include "commands.h"
#include "door_files.h"
#include "engine_check.h"
#include "platform/process.h"
#include "platform/shared_mapping.h"
#include "policy/eviction.h"

namespace artesian::cli {
namespace {

struct RunOptions {
  std::uint64_t memory = 0;  // 0: found from the limit in force
  std::string mode = "auto";
  std::string eviction, stats_file;
  bool quiet = false;
};

void say(const RunOptions& options, const std::string& sentence) {
  if (!options.quiet) std::fprintf(stderr, "artesian: %s\n", sentence.c_str());
}

int cannot_start(const Error& error) {
  std::fprintf(stderr, "artesian: %s\n", error.message.c_str());
  return program_exit_code(error);
}

Result<int> run_with_door(const Context& context, const RunOptions& options, Command command) {
  const auto door = find_door();
  if (!door) return fail(door.error());
  std::string stats = options.stats_file;
  if (stats.empty()) {
    auto path = stats_path(context, own_pid());
    if (!path) return fail(path.error());
    stats = *path;
  }
  // An earlier run's figures must not be taken for this one's.
  if (auto ok = remove_file(stats); !ok) return fail(ok.error());
  if (auto file = SharedMapping::open(stats, stats_file_bytes); !file) return fail(file.error());
  open_door(context, *door,
            {.memory = options.memory, .mode = options.mode, .eviction = options.eviction, .stats_file = stats},
            command);
  const auto exit_code = run_program(command);
  if (exit_code) say(options, closing_line(read_stats_file(stats)));
  if (options.stats_file.empty()) {
    if (auto ok = remove_file(stats); !ok) say(options, ok.error().message);
  }
  return exit_code ? *exit_code : cannot_start(exit_code.error());
}

Result<int> run(const Context& context, const RunOptions& options) {
  if (context.after_dashes.empty()) {
    return fail(Code::invalid,
                "run: name the program after --, for example: artesian run --memory 8G -- llama-server -m {}",
                "model.gguf");
  }
  Command command;
  command.arguments = context.after_dashes;
  const auto path = find_program(command.arguments[0], context.search_path);
  if (!path) return cannot_start(path.error());
  command.path = *path;
  const GgmlUse ggml = find_ggml(command.path, context.library_path);
  if (ggml.linkage == GgmlLinkage::statically) {
    say(options,
        fmt::format("{} has ggml linked in, so the door cannot be opened; it runs as if artesian were not there",
                    ggml.file));
  }
  if (ggml.linkage == GgmlLinkage::statically || options.mode == "off") {
    return cannot_start(replace_process(command));
  }
  return run_with_door(context, options, std::move(command));
}

std::string eviction_names() {
  std::string names;
  for (const auto& info : eviction_policies()) names += (names.empty() ? "" : ", ") + std::string(info.name);
  return names;
}

}  // namespace

Action setup_run(CLI::App& command, const Context& context) {
  auto options = std::make_shared<RunOptions>();
  add_size(command, "--memory", options->memory,
           "Memory for the weights that the door holds; found from the limit in force if not given");
  command
      .add_option("--mode", options->mode, "auto: step aside where the model fits; on: never; off: run as if not there")
      ->check(CLI::IsMember({"auto", "on", "off"}))
      ->capture_default_str();
  command.add_option("--eviction", options->eviction, "How experts give way: " + eviction_names())
      ->type_name("NAME")
      ->check([](const std::string& name) -> std::string {
        if (find_eviction(name) != nullptr) return {};
        return fmt::format("there is no eviction policy '{}'; there are {}", name, eviction_names());
      });
  command
      .add_option("--stats-file", options->stats_file,
                  "Keep the figures in this file (else in the runtime folder, while it runs)")
      ->type_name("PATH");
  command.add_flag("--quiet", options->quiet, "No closing line");
  set_examples(command, {"artesian run --memory 8G -- llama-server -m model.gguf",
                         "artesian run -- llama-completion -m model-00001-of-00004.gguf -p 'The sky is'"});
  command.footer("All after -- is the program and its arguments, passed on as they are.\n\n" + command.get_footer());
  return [&context, options] { return run(context, *options); };
}

}  // namespace artesian::cli
