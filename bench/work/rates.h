// The table of the paths whose rates are measured.
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "bench/measure/row.h"
#include "bench/work/rate_ceilings.h"
#include "bench/work/settings.h"

namespace onecopy::bench {

enum class RateEnd { kHost, kGpu };

// Between two nodes from one's memory to the other's, or inside one node.
struct Rate {
  std::string work;
  std::string path;
  bool between_nodes = false;
  RateEnd from = RateEnd::kHost;
  RateEnd to = RateEnd::kHost;
  bool one_gpu = false;  // both ends are memory of the same GPU
  std::string link = {};
  std::string ceiling = {};  // empty: none
  RateCeiling make_ceiling = nullptr;
  // Another path between the same memories, which is the ceiling then.
  std::string against = {};
  std::optional<double> floor = {};  // of payloads that take long enough to judge by
  // The ratio to reach at payloads of so many bytes and more, ascending.
  std::vector<std::pair<uint64_t, double>> targets = {};

  bool over_tcp() const { return path.rfind("tcp-", 0) == 0; }
};

const std::vector<Rate>& AllRates();
// Direct paths, each held against the staged one that takes its place where it is not there.
const std::vector<Rate>& DirectRates();

// The rows of these rates, of which each begins with daemons of its own where none are given.
std::vector<Row> MeasureRates(const std::vector<Rate>& rates, const Settings& settings);

}  // namespace onecopy::bench
