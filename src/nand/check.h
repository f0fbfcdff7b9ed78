// The table that the model is held to: what it gives, what theory or a published figure says, and how far apart they
// are. docs/decisions/0009-nand.md has the reasons behind each row.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/result.h"

namespace artesian::nand {

struct CheckRow {
  std::string name;  // "fifo.20"
  std::string what;  // one line for people
  double figure = 0, reference = 0;
  std::string unit;
  std::string goal;  // "within 1 %"
  bool met = true;
  bool judged = true;  // false: shown only
  std::string note;
  double deviation() const { return reference == 0 ? 0 : figure / reference - 1; }
};

struct CheckOptions {
  bool quick = false;            // smaller drives, for tests; the same rows and limits
  const Clock* clock = nullptr;  // of processor time, for the rows of speed; without it they are left out
  std::function<void(const CheckRow&)> progress;
};

std::vector<CheckRow> run_checks(const CheckOptions& options);

// Groups of rows, for tests; each appends.
void check_write_amplification(std::vector<CheckRow>& rows, const CheckOptions& options);
void check_hot_and_cold(std::vector<CheckRow>& rows, const CheckOptions& options);
void check_exact(std::vector<CheckRow>& rows, const CheckOptions& options);
void check_mqsim(std::vector<CheckRow>& rows, const CheckOptions& options);
void check_ceilings(std::vector<CheckRow>& rows, const CheckOptions& options);
void check_classes(std::vector<CheckRow>& rows, const CheckOptions& options);
void check_priorities(std::vector<CheckRow>& rows, const CheckOptions& options);
void check_published(std::vector<CheckRow>& rows, const CheckOptions& options);
void check_speed(std::vector<CheckRow>& rows, const CheckOptions& options);

// One line a row, and what was missed.
std::string check_table(const std::vector<CheckRow>& rows);
std::string check_json(const std::vector<CheckRow>& rows);

}  // namespace artesian::nand
