// The artesian program: takes arguments and environment in, runs the command that they name, hands its exit code out.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string_view>

#include "commands.h"

namespace {

using namespace artesian;
using namespace artesian::cli;

std::string variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

Context read_environment() {
  Context context;
  context.search_path = variable("PATH");
  if (context.search_path.empty()) context.search_path = "/usr/local/bin:/usr/bin:/bin";
  context.runtime_dir = variable("XDG_RUNTIME_DIR");
  context.cache_dir = variable("XDG_CACHE_HOME");
  if (context.cache_dir.empty()) context.cache_dir = variable("HOME") + "/.cache";
  context.traces = variable("ARTESIAN_TRACES");
  context.engine_bin = variable("ARTESIAN_ENGINE_BIN");
  context.model = variable("ARTESIAN_MODEL");
  context.server_host = variable("LLAMA_ARG_HOST");
  context.server_port = variable("LLAMA_ARG_PORT");
  context.server_api_key = variable("LLAMA_API_KEY");
  context.server_cache_ram = variable("LLAMA_ARG_CACHE_RAM");
  context.preload = variable("LD_PRELOAD");
  context.library_path = variable("LD_LIBRARY_PATH");
  return context;
}

int report(const Error& error) {
  std::fprintf(stderr, "artesian: %s\n", error.message.c_str());
  const bool bad_input = error.code == Code::invalid || error.code == Code::not_found || error.code == Code::corrupt;
  return bad_input ? exit_usage : exit_missed;
}

// CLI11's sentences, without its hint to run with --help on a line of its own.
int report(const CLI::App& app, const CLI::ParseError& error) {
  if (error.get_exit_code() == 0) return app.exit(error);  // --help, --version
  std::fprintf(stderr, "artesian: %s\n", error.what());
  return exit_usage;
}

const CLI::App* chosen(const CLI::App* app) {
  while (!app->get_subcommands().empty()) app = app->get_subcommands().front();
  return app;
}

// The daemon is the same program by another name.
bool is_daemon(std::string_view program) {
  return program.substr(program.rfind('/') + 1) == "artesiand";
}

int run_main(std::string_view program, std::vector<std::string> arguments) {
  if (is_daemon(program)) arguments.insert(arguments.begin(), {"store", "serve"});
  Context context = read_environment();
  // What follows "--" is another program's and never looked at here.
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i] != "--") continue;
    context.has_dashes = true;
    context.after_dashes.assign(arguments.begin() + static_cast<std::ptrdiff_t>(i) + 1, arguments.end());
    arguments.resize(i);
    break;
  }
  const Tree tree = make_tree(context);
  try {
    tree.app->parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    return report(*tree.app, error);
  }
  const CLI::App* command = chosen(tree.app.get());
  for (const auto& [app, action] : tree.actions) {
    if (app != command) continue;
    const auto exit_code = action();
    return exit_code ? *exit_code : report(exit_code.error());
  }
  return exit_usage;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run_main(argc > 0 ? argv[0] : "", {argv + std::min(argc, 1), argv + argc});
  } catch (const std::exception& error) {
    std::fprintf(stderr, "artesian: %s\n", error.what());
    return exit_missed;
  }
}
