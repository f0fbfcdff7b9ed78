// What the commands of `artesian store` have in common: paths, key file, namespace.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "commands.h"
#include "store/store_files.h"

namespace artesian::cli {

struct StoreOptions {
  std::vector<std::string> paths;
  NamespaceFields ns;
  std::string key, file, key_file;
  std::uint64_t size = 0, endurance = 0;
  StoreGeometry geometry;
  bool overwrite = false, json = false;
};
using StoreOptionsPtr = std::shared_ptr<StoreOptions>;

StoreOptionsPtr add_store_paths(CLI::App& command);
void add_store_namespace(CLI::App& command, StoreOptions& options);
StoreFilesOptions files_of(const StoreOptions& options);

}  // namespace artesian::cli
