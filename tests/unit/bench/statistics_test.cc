#include "bench/measure/statistics.h"

#include "tests/support/catch.h"

using onecopy::bench::MedianRatio;
using onecopy::bench::Summarise;

TEST_CASE("the median is the value in the middle, whatever the order") {
  const auto summary = Summarise({5, 1, 100});
  CHECK(summary.median == 5);
  CHECK(summary.min == 1);
  CHECK(summary.max == 100);
}

TEST_CASE("the median of an even number of values is the mean of the two in the middle") {
  CHECK(Summarise({4, 1, 2, 100}).median == 3);
}

TEST_CASE("one value is its own median, and no value is none") {
  CHECK(Summarise({7}).median == 7);
  CHECK(Summarise({}).median == 0);
}

TEST_CASE("a ratio is the median over pairs, so that a machine that slows down changes nothing") {
  // Ten times slower from sample to sample, and half of the ceiling in each; the ratio of the
  // medians would be the same here, but not in the second case.
  CHECK(MedianRatio({500, 50, 5}, {1000, 100, 10}) == 0.5);
  CHECK(MedianRatio({10, 1, 9}, {20, 1, 10}) == 0.9);
}

TEST_CASE("a ceiling of nothing gives a ratio of nothing") {
  CHECK(MedianRatio({1}, {0}) == 0);
  CHECK(MedianRatio({}, {}) == 0);
}
