// artesian completion: a bash script made from the tree of commands and options, so that it cannot fall behind it.
#include <cstdio>
#include <memory>

#include "commands.h"

namespace artesian::cli {
namespace {

std::string words_of(const CLI::App& app) {
  std::string words;
  const auto add = [&](const std::string& word) { words += (words.empty() ? "" : " ") + word; };
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) add(command->get_name());
  for (const auto* option : app.get_options()) {
    for (const auto& name : option->get_lnames()) add("--" + name);
  }
  return words;
}

// One case for each command: what may follow it.
void add_cases(const CLI::App& app, const std::string& path, std::string& script) {
  script += "    '" + path + "') words='" + words_of(app) + "' ;;\n";
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    add_cases(*command, path.empty() ? command->get_name() : path + " " + command->get_name(), script);
  }
}

// The names of commands, to tell them from other words while the line is read.
void add_paths(const CLI::App& app, const std::string& path, std::string& script) {
  for (const auto* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    const std::string own = path.empty() ? command->get_name() : path + " " + command->get_name();
    script += "|" + own;
    add_paths(*command, own, script);
  }
}

std::string bash_script(const CLI::App& app) {
  std::string paths, cases;
  add_paths(app, "", paths);
  add_cases(app, "", cases);
  return R"(# bash completion for artesian: source it, or put it into /etc/bash_completion.d
_artesian() {
  local current="${COMP_WORDS[COMP_CWORD]}" path='' candidate words='' i
  COMPREPLY=()
  for ((i = 1; i < COMP_CWORD; i++)); do
    if [[ "${COMP_WORDS[i]}" == -- ]]; then
      # The rest is another program's line: complete it as that program would be.
      if declare -F _command_offset >/dev/null; then _command_offset $((i + 1)); else COMPREPLY=($(compgen -c -f -- "$current")); fi
      return
    fi
    candidate="${path:+$path }${COMP_WORDS[i]}"
    if [[ ')" +
         paths + R"(|' == *"|$candidate|"* ]]; then path="$candidate"; fi
  done
  case "$path" in
)" + cases +
         R"(  esac
  COMPREPLY=($(compgen -W "$words" -- "$current"))
  if [[ ${#COMPREPLY[@]} -eq 0 ]]; then COMPREPLY=($(compgen -f -- "$current")); fi
}
complete -o filenames -F _artesian artesian
)";
}

}  // namespace

Action setup_completion(CLI::App& command, const Context&) {
  auto shell = std::make_shared<std::string>();
  command.add_option("shell", *shell, "bash")->required()->check(CLI::IsMember({"bash"}));
  set_examples(command, {"source <(artesian completion bash)"});
  return [&command, shell]() -> Result<int> {
    std::fputs(bash_script(*command.get_parent()).c_str(), stdout);
    return exit_ok;
  };
}

}  // namespace artesian::cli
