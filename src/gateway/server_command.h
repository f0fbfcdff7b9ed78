// The command line of llama-server, read for where it would listen and changed so that it runs behind the gateway: on a
// private socket, with the staging folder, and with its own prompt cache in memory set knowingly.
//
// Pure; safe from any thread. Errors: invalid for what cannot be behind a gateway.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/result.h"

namespace artesian {

struct ServerCommand {
  std::vector<std::string> arguments;  // [0] is the program
  std::string host = "127.0.0.1";      // where it would have listened
  std::uint16_t port = 8080;
  std::vector<std::string> api_keys;
  std::string api_key_file;  // one key a line
};

struct ServerEnvironment {  // llama.cpp's variables, empty where not set
  std::string host, port, api_key, cache_ram;
};

Result<ServerCommand> behind_gateway(const std::vector<std::string>& arguments, const ServerEnvironment& environment,
                                     const std::string& socket, const std::string& staging_folder);

}  // namespace artesian
