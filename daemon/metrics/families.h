// The metrics themselves: names, help and labels, as docs/metrics.md has them.
#pragma once

#include <prometheus/metric_family.h>

#include <cstdint>
#include <vector>

#include "daemon/engine/api/figures.h"

namespace onecopy::metrics {

// What the process knows without its engine.
struct ProcessFigures {
  bool engine_answered = false;
  uint64_t log_records_dropped = 0;
  uint64_t audit_records_dropped = 0;
};

// Every family is there whenever the engine has answered, also one that has no series yet.
std::vector<prometheus::MetricFamily> FamiliesOf(const engine::Figures& figures);
std::vector<prometheus::MetricFamily> FamiliesOf(const ProcessFigures& process);

}  // namespace onecopy::metrics
