// A small file of our own that holds a JSON object: what is remembered beside a store. Read as hostile input; what
// cannot be read is an empty object. Written beside and renamed, so that it is whole or not there.
//
// Threads: one writer of a file at a time.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <string>

#include "base/result.h"
#include "platform/file_version.h"

namespace artesian {

nlohmann::json read_json_file(const std::string& path);

// Where `accept` is given and false for the fresh file, all stays as it was.
Status write_json_file(const std::string& path, const nlohmann::json& object,
                       const std::function<bool(const FileVersion& fresh)>& accept = {});

}  // namespace artesian
