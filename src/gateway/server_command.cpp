#include "gateway/server_command.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

namespace artesian {
namespace {

Status set_port(ServerCommand& command, const std::string& text) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, command.port);
  if (error != std::errc() || stop != end)
    return fail(Code::invalid, "llama-server: --port takes a number, not '{}'", text);
  return {};
}

void add_keys(ServerCommand& command, const std::string& list) {
  std::size_t begin = 0;
  while (begin <= list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    if (end > begin) command.api_keys.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
}

struct Refusal {
  std::string_view option, why;
};
constexpr std::array refusals = {
    Refusal{"--slot-save-path", "the gateway has a folder of its own for slots"},
    Refusal{"--ssl-key-file", "the gateway does not speak TLS; let a proxy before it do so"},
    Refusal{"--ssl-cert-file", "the gateway does not speak TLS; let a proxy before it do so"},
    Refusal{"--api-prefix", "the gateway knows the server's paths as they are"},
};

}  // namespace

Result<ServerCommand> behind_gateway(const std::vector<std::string>& arguments, const ServerEnvironment& environment,
                                     const std::string& socket, const std::string& staging_folder) {
  ServerCommand command;
  if (!environment.host.empty()) command.host = environment.host;
  if (!environment.port.empty()) {
    if (auto ok = set_port(command, environment.port); !ok) return fail(std::move(ok.error()));
  }
  add_keys(command, environment.api_key);
  bool cache_ram = !environment.cache_ram.empty();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const auto* const refusal = std::ranges::find(refusals, word, &Refusal::option);
    if (refusal != refusals.end()) return fail(Code::invalid, "llama-server: leave out {}: {}", word, refusal->why);
    const bool ours = word == "--host" || word == "--port";
    const bool takes_value = ours || word == "--api-key" || word == "--api-key-file";
    if (takes_value && i + 1 == arguments.size()) return fail(Code::invalid, "llama-server: {} lacks its value", word);
    if (word == "--host") command.host = arguments[i + 1];
    if (word == "--api-key") add_keys(command, arguments[i + 1]);
    if (word == "--api-key-file") command.api_key_file = arguments[i + 1];
    if (word == "--port") {
      if (auto ok = set_port(command, arguments[i + 1]); !ok) return fail(std::move(ok.error()));
    }
    cache_ram = cache_ram || word == "-cram" || word == "--cache-ram";
    if (ours) {
      ++i;
    } else {
      command.arguments.push_back(word);
    }
  }
  const auto add = [&command](std::initializer_list<std::string> words) {
    command.arguments.insert(command.arguments.end(), words);
  };
  add({"--host", socket, "--slot-save-path", staging_folder + "/"});
  // What slots held before is in the store: a second copy in memory is only there if it was asked for, and slots are
  // never emptied behind the gateway's back.
  if (!cache_ram) add({"--cache-ram", "0"});
  add({"--no-cache-idle-slots"});
  return command;
}

}  // namespace artesian
