#include "store_options.h"

#include <cstdio>

namespace artesian::cli {

StoreFilesOptions files_of(const StoreOptions& options) {
  StoreFilesOptions files{.geometry = options.geometry, .key_file = options.key_file};
  for (const std::string& path : options.paths) files.paths.push_back({.path = path, .bytes = options.size});
  files.engine.report = [](std::string_view text) {
    std::fprintf(stderr, "artesian: store: %.*s\n", static_cast<int>(text.size()), text.data());
  };
  return files;
}

StoreOptionsPtr add_store_paths(CLI::App& command) {
  auto options = std::make_shared<StoreOptions>();
  command.add_option("--path", options->paths, "A file, folder or block device of the store; once for each")
      ->required();
  command.add_option("--key-file", options->key_file,
                     "The store is encrypted with the key in this file: 32 bytes or 64 hex digits, mode 0600");
  return options;
}

void add_store_namespace(CLI::App& command, StoreOptions& options) {
  command.add_option("--weights", options.ns.weights, "Fingerprint of the weights that the KV belongs to")->required();
  command.add_option("--model", options.ns.model, "Name of the model");
  command.add_option("--dtype", options.ns.dtype, "Type of the KV's numbers");
  command.add_option("--layout", options.ns.layout, "How a block lies in memory");
  command.add_option("--adapter", options.ns.adapter, "Adapter in use");
  command.add_option("--policy", options.ns.policy,
                     "Which blocks are written and stay: chats, shared, ADMISSION+EVICTION");
}

}  // namespace artesian::cli
