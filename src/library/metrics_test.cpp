#include "library/metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

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

TEST(Metrics, TheBoardNamesNoOthers) {
  std::ifstream file(ARTESIAN_BOARD);
  const std::string board(std::istreambuf_iterator<char>(file), {});
  const auto parsed = nlohmann::json::parse(board, nullptr, false);
  ASSERT_TRUE(parsed.is_object()) << ARTESIAN_BOARD;
  const std::string given = metrics_text({});
  std::set<std::string> named;
  const auto look = [&](const std::string& query) {
    static const std::regex name("artesian_[a-z_]+");
    for (std::sregex_iterator at(query.begin(), query.end(), name), end; at != end; ++at) named.insert(at->str());
  };
  for (const auto& panel : parsed.at("panels")) {
    for (const auto& target : panel.at("targets")) look(target.at("expr"));
  }
  for (const auto& variable : parsed.at("templating").at("list")) {
    if (variable.at("type") == "query") look(variable.at("query").at("query"));
  }
  EXPECT_GT(named.size(), 20U);
  for (const std::string& name : named) EXPECT_THAT(given, HasSubstr("# TYPE " + name + " "));
}

}  // namespace
}  // namespace artesian
