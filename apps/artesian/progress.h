// One line on stderr that shows how far something is, where stderr is a terminal; gone when the object goes.
#pragma once

#include <string_view>

namespace artesian::cli {

class ProgressLine {
 public:
  ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;
  ~ProgressLine();

  void show(double part, std::string_view what);  // part of 1

 private:
  bool visible_;
};

}  // namespace artesian::cli
