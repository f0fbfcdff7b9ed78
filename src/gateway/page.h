// The page at /artesian/: what the gateway does, live, from /artesian/status; one file, nothing from elsewhere.
#pragma once

#include <string_view>

namespace artesian {

extern const std::string_view status_page;

}  // namespace artesian
