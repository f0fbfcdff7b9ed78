// Whether somebody watches: progress is shown on a terminal alone.
#pragma once

#include <cstdio>

namespace artesian {

bool is_terminal(std::FILE* stream);

}  // namespace artesian
