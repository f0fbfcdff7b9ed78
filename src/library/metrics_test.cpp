#include "library/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace artesian {
namespace {

using testing::HasSubstr;

TEST(Metrics, EveryFigureHasItsHelpAndUnit) {
  const std::string text = metrics_text({.blocks = 7, .hits = 5, .bytes_read = 4096, .paths = 2});
  EXPECT_THAT(text, HasSubstr("# HELP artesian_store_hits_total Gets that gave a block\n"
                              "# TYPE artesian_store_hits_total counter\nartesian_store_hits_total 5"));
  EXPECT_THAT(text, HasSubstr("# TYPE artesian_store_blocks gauge\nartesian_store_blocks 7"));
  EXPECT_THAT(text, HasSubstr("artesian_store_read_bytes_total 4096"));
  EXPECT_THAT(text, HasSubstr("artesian_store_paths 2"));
}

}  // namespace
}  // namespace artesian
