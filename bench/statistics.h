// What several measurements of the same thing come to.
#pragma once

#include <vector>

namespace artesian::bench {

// Of a list that is not empty: the middle one, or the mean of the two in the middle.
double median(std::vector<double> values);
double median_or_0(std::vector<double> values);  // 0 of nothing

}  // namespace artesian::bench
