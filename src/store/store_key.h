// The key of an encrypted store, from a file that nobody but its owner may read: 32 bytes, or 64 hex digits and at most
// a line's end behind them. It comes from nowhere else, and no message has any of it.
//
// Threads: none but the caller's.
#pragma once

#include <string>

#include "base/aes_gcm.h"
#include "base/result.h"

namespace artesian {

// rejected where others may read the file, invalid where no key is in it.
Result<SecretKey> read_store_key(const std::string& path);

}  // namespace artesian
