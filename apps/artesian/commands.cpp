#include "commands.h"

#include <array>

#include "base/units.h"
#include "version.h"

namespace artesian::cli {
namespace {

constexpr std::array group_table = {
    GroupInfo{"bench", "Measure, and compare with the goals"},
    GroupInfo{"contexts", "Look after what a gateway keeps"},
    GroupInfo{"store", "Keep KV blocks on flash"},
    GroupInfo{"nand", "Simulate SSDs, and what they do to a workload"},
};

constexpr std::array command_table = {
    CommandInfo{"run", "Start a llama.cpp program with the weights door open", setup_run},
    CommandInfo{"serve", "Put llama-server behind a gateway that keeps contexts on flash", setup_serve},
    CommandInfo{"inspect", "Tell what a model needs and what memory budgets should give", setup_inspect},
    CommandInfo{"stat", "Show what running programs' doors do", setup_stat},
    CommandInfo{"replay", "Replay a request trace through a KV store or its policies", setup_replay},
    CommandInfo{"bench device", "Measure a drive by request size and queue depth", setup_bench_device},
    CommandInfo{"bench store", "Measure a KV store beside the drive alone, one file per block and RocksDB",
                setup_bench_store},
    CommandInfo{"bench gateway", "Bring contexts back through the gateway and without it", setup_bench_gateway},
    CommandInfo{"bench policy", "Replay expert routes through the eviction policies", setup_bench_policy},
    CommandInfo{"bench weights", "Run models larger than memory through the door and without it", setup_bench_weights},
    CommandInfo{"store init", "Make an empty store", setup_store_init},
    CommandInfo{"store stat", "Tell how full a store is", setup_store_stat},
    CommandInfo{"store ls", "List its blocks", setup_store_ls},
    CommandInfo{"store verify", "Read and check every byte of it", setup_store_verify},
    CommandInfo{"store put", "Keep a file as a block", setup_store_put},
    CommandInfo{"store get", "Bring a block back into a file", setup_store_get},
    CommandInfo{"store rm", "Erase a block", setup_store_rm},
    CommandInfo{"store serve", "Own a store and share it with the engines of this machine", setup_store_serve},
    CommandInfo{"store pin", "Keep blocks until they are unpinned, under a name", setup_store_pin},
    CommandInfo{"store unpin", "Let the blocks of a pin give way again", setup_store_unpin},
    CommandInfo{"store pins", "List what is pinned under a name", setup_store_pins},
    CommandInfo{"store compact", "Give back the space that dead blocks hold", setup_store_compact},
    CommandInfo{"store repair", "Verify, and make what is bad stay away for good", setup_store_repair},
    CommandInfo{"store export", "Write all blocks to a file", setup_store_export},
    CommandInfo{"store import", "Take blocks from such a file, each one verified", setup_store_import},
    CommandInfo{"nand profiles", "List the drives there are, and where their figures come from", setup_nand_profiles},
    CommandInfo{"nand run", "Run a workload on a simulated drive", setup_nand_run},
    CommandInfo{"nand compare", "Run a workload on several drives, side by side", setup_nand_compare},
    CommandInfo{"nand check", "Hold the model against theory and published figures", setup_nand_check},
    CommandInfo{"advise", "Tell which drive fits a model, a load and a budget", setup_advise},
    CommandInfo{"contexts ls", "List the conversations that a gateway keeps", setup_contexts_ls},
    CommandInfo{"contexts rm", "Erase one, as far as others do not share it", setup_contexts_rm},
    CommandInfo{"contexts pin", "Keep one from giving way to others", setup_contexts_pin},
    CommandInfo{"contexts unpin", "Let it give way again", setup_contexts_unpin},
    CommandInfo{"contexts warm", "Compute a system prompt ahead of time", setup_contexts_warm},
    CommandInfo{"completion", "Print the completion script for a shell", setup_completion},
};

CLI::App* find_parent(CLI::App& app, std::string_view& name) {
  const auto space = name.find(' ');
  if (space == std::string_view::npos) return &app;
  const std::string group(name.substr(0, space));
  name.remove_prefix(space + 1);
  return app.get_subcommand(group);
}

std::uint64_t size_of(const std::string& option, const std::string& text) {
  const auto size = parse_size(text);
  if (!size) throw CLI::ValidationError(option, size.error().message);
  if (*size == 0) throw CLI::ValidationError(option, "a size of 0 leaves nothing to work with");
  return *size;
}

}  // namespace

std::span<const CommandInfo> commands() {
  return command_table;
}
std::span<const GroupInfo> groups() {
  return group_table;
}

Tree make_tree(const Context& context) {
  Tree tree;
  tree.app = std::make_unique<CLI::App>("What lies on flash is in memory when the compute asks for it.", "artesian");
  CLI::App& app = *tree.app;
  app.set_version_flag("--version", version());
  app.set_help_flag("-h,--help", "Print this help");
  app.require_subcommand(1);
  app.footer("artesian COMMAND --help tells more, with examples.");
  for (const auto& group : groups()) {
    bool used = false;
    for (const auto& info : commands()) used = used || info.name.starts_with(std::string(group.name) + " ");
    if (used) app.add_subcommand(std::string(group.name), std::string(group.summary))->require_subcommand(1);
  }
  for (const auto& info : commands()) {
    std::string_view name = info.name;
    CLI::App* parent = find_parent(app, name);
    CLI::App* command = parent->add_subcommand(std::string(name), std::string(info.summary));
    tree.actions.emplace_back(command, info.setup(*command, context));
  }
  return tree;
}

CLI::Option* add_size(CLI::App& command, const std::string& name, std::uint64_t& bytes, const std::string& help) {
  return command
      .add_option_function<std::string>(
          name, [&bytes, name](const std::string& text) { bytes = size_of(name, text); }, help)
      ->type_name("SIZE");
}

CLI::Option* add_sizes(CLI::App& command, const std::string& name, std::vector<std::uint64_t>& bytes,
                       const std::string& help) {
  return command
      .add_option_function<std::vector<std::string>>(
          name,
          [&bytes, name](const std::vector<std::string>& texts) {
            for (const std::string& text : texts) bytes.push_back(size_of(name, text));
          },
          help)
      ->type_name("SIZE")
      ->allow_extra_args(false);
}

void set_examples(CLI::App& command, std::initializer_list<std::string_view> lines) {
  std::string text = "Examples:";
  for (const auto line : lines) text += "\n  " + std::string(line);
  command.footer(text);
}

}  // namespace artesian::cli
