// Statistics of several samples.
#pragma once

#include <vector>

namespace onecopy::bench {

// Zeros without values. The median of an even number of values is the mean of the two in
// the middle.
struct Summary {
  double median = 0;
  double min = 0;
  double max = 0;
};
Summary Summarise(std::vector<double> values);

// The median of value[i] / ceiling[i]: each sample against the ceiling that was measured right
// beside it, so that a machine that slows down meanwhile slows both. The lists are of one length;
// 0 where they are empty.
double MedianRatio(const std::vector<double>& values, const std::vector<double>& ceilings);

}  // namespace onecopy::bench
