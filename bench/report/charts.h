// What is drawn of a run's rows.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/row.h"

namespace onecopy::bench {

// <figure>s: rate over size and share of the ceiling over size, for paths between nodes and inside
// one; direct over staged; rate and CPU cost over copies. A drawing that would be empty is left
// out.
std::string ChartsOf(const std::vector<Row>& rows);

}  // namespace onecopy::bench
