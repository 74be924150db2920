// The metrics themselves: names, help and labels, as docs/metrics.md has them.
#pragma once

#include <prometheus/metric_family.h>

#include <vector>

#include "daemon/engine/api/figures.h"
#include "daemon/metrics/process_figures.h"

namespace onecopy::metrics {

// Every family is there whenever the engine has answered, also one that has no series yet.
std::vector<prometheus::MetricFamily> FamiliesOf(const engine::Figures& figures);
std::vector<prometheus::MetricFamily> FamiliesOf(const ProcessFigures& process);

}  // namespace onecopy::metrics
