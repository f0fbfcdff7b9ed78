// Which drive fits a load: reports of the same workload on several drives in, a choice with its reasons out. Pure.
//
// A drive fits if it can be bought for the budget, holds the load, lasts, and is as quick as wanted. Of those that fit
// the one is advised whose million tokens cost least (for flows alone: that costs least); the next better one is the
// nearest that is quicker than it, whatever it costs.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "nand/workload.h"

namespace artesian::nand {

struct AdviceWants {
  double budget_usd = 0;     // for one drive
  double years = 0;          // that it must last; 0: the profile's service years
  double first_token_s = 0;  // 99th percentile; 0: whatever it is
  double tokens_per_s = 0;   // decoded; 0: whatever
};

struct AdviceInput {
  Profile profile;                  // whole
  std::optional<RunReport> report;  // none: it cannot run the load, because
  std::string why_not;
};

struct AdviceRow {
  std::string name;
  double usd = 0;    // of the drive
  double years = 0;  // infinite where nothing is written
  double first_token_p50_s = 0, first_token_p99_s = 0, decoded_per_s = 0, read_p99_us = 0;
  double usd_per_million = 0, joules_per_million = 0;
  double speed = 0;             // to compare: higher is better; 0: it did not run
  std::vector<std::string> no;  // why it does not fit; empty: it fits
};

struct Advice {
  std::vector<AdviceRow> rows;  // as they came
  std::optional<std::size_t> best, better;
  std::string why, next;  // sentences
};

Advice advise(std::span<const AdviceInput> inputs, const AdviceWants& wants);
std::string advice_text(const Advice& advice);
std::string advice_json(const Advice& advice);

}  // namespace artesian::nand
