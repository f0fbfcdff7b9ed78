#include "progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

#include "platform/terminal.h"

namespace artesian::cli {
namespace {

constexpr int bar_columns = 20;

}  // namespace

ProgressLine::ProgressLine() : visible_(is_terminal(stderr)) {}

ProgressLine::~ProgressLine() {
  if (visible_) std::fputs("\r\033[K", stderr);
}

void ProgressLine::show(double part, std::string_view what) {
  if (!visible_) return;
  const int full = static_cast<int>(std::clamp(part, 0.0, 1.0) * bar_columns);
  fmt::print(stderr, "\r[{:#<{}}{:<{}}] {:3.0f} %  {}\033[K", "", full, "", bar_columns - full, 100 * part, what);
  std::fflush(stderr);
}

}  // namespace artesian::cli
