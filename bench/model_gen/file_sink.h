// A generated model's file, written from its beginning to its end.
#pragma once

#include <memory>
#include <string>

#include "format/gguf_writer.h"

namespace artesian {

// Code::device_failed with the system's words where the file cannot be made or written. What is there is replaced.
Result<std::unique_ptr<ByteSink>> open_file_sink(const std::string& path);

}  // namespace artesian
