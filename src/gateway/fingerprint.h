// What a file is, by every byte of it: 128 bits of XXH3, as text. Not proof against somebody who makes collisions;
// whoever can replace the model can have any answer anyway.
//
// Threads: safe from any thread; reads the whole file, so it belongs on a worker.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace artesian {

// Of the files together, in this order. What was found is remembered in `memory`, a file of our own (empty: not), by
// device, inode, size and time of change of each: files that are the same are not read again. A memory that cannot be
// read or written is none.
Result<std::string> fingerprint_files(const std::vector<std::string>& paths, const std::string& memory);

// All shards of a model: names as prefix-00001-of-00003.gguf, or the file alone.
std::vector<std::string> model_files(const std::string& path);

}  // namespace artesian
