// A file as a ByteSource: plain reads at offsets, for headers. Not for weights, which go through a Device.
// Not thread safe. A file that shrinks while it is read gives Code::corrupt, never bytes that are not there.
#pragma once

#include <memory>
#include <string>

#include "format/gguf_model.h"

namespace artesian {

// Code::not_found if there is no such file, device_failed for what the system says otherwise.
Result<std::unique_ptr<ByteSource>> open_file_source(const std::string& path);

// open_model() over files.
inline Result<GgufModel> open_model_files(const std::string& first_path) {
  return open_model(first_path, open_file_source);
}

}  // namespace artesian
