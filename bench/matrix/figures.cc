#include "bench/matrix/figures.h"

#include <algorithm>

#include "onecopy/reasons.h"

namespace onecopy::bench {

Figure NotMeasured() {
  return Status(Code::kCancelled, reasons::kCancelled, "the run was stopped before");
}

Missing WhyMissing(const Figure& figure) {
  const Status why = figure.status();
  if (why.reason() == reasons::kNoPeerAccess) return Missing::kNoP2p;
  return why.code() == Code::kCancelled ? Missing::kStopped : Missing::kFailed;
}

std::vector<PairFigures> EveryPair(size_t gpus) {
  std::vector<PairFigures> pairs(gpus * gpus);
  for (size_t i = 0; i < pairs.size(); ++i) {
    pairs[i].from = i / gpus;
    pairs[i].to = i % gpus;
  }
  return pairs;
}

bool AnyFailed(const Matrix& matrix) {
  const auto failed = [](const Figure& figure) {
    return !figure.ok() && WhyMissing(figure) == Missing::kFailed;
  };
  const auto any = [&](const PlainFigures& plain) {
    return failed(plain.one_way_bytes_per_second) || failed(plain.both_ways_bytes_per_second) ||
           failed(plain.latency_seconds);
  };
  return std::any_of(matrix.pairs.begin(), matrix.pairs.end(), [&](const PairFigures& pair) {
    return any(pair.p2p_on) || any(pair.p2p_off) || failed(pair.through_host_bytes_per_second) ||
           failed(pair.onecopy_bytes_per_second) || failed(pair.onecopy_latency_seconds);
  });
}

}  // namespace onecopy::bench
