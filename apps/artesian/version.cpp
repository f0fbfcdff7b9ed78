#include "version.h"

#include <artesian_commit.h>

namespace artesian::cli {

std::string version() {
  return ARTESIAN_VERSION ", commit " ARTESIAN_COMMIT;
}

}  // namespace artesian::cli
