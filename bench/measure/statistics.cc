#include "bench/measure/statistics.h"

#include <algorithm>
#include <cassert>

namespace onecopy::bench {

Summary Summarise(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const size_t middle = values.size() / 2;
  const double median =
      values.size() % 2 == 1 ? values[middle] : (values[middle - 1] + values[middle]) / 2;
  return {median, values.front(), values.back()};
}

double MedianRatio(const std::vector<double>& values, const std::vector<double>& ceilings) {
  assert(values.size() == ceilings.size());
  std::vector<double> ratios;
  for (size_t i = 0; i < values.size(); ++i) {
    ratios.push_back(ceilings[i] > 0 ? values[i] / ceilings[i] : 0);
  }
  return Summarise(std::move(ratios)).median;
}

}  // namespace onecopy::bench
