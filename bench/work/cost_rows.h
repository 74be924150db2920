// Rows for what a payload cost beside its time.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/compare.h"

namespace onecopy::bench {

// Two rows for the largest payload of a rate: its CPU time beside that of the ceiling's part that
// tells it, and the bytes through host memory as computed from its receipt.
void AddCostRows(const Compared& largest, const std::string& cpu_ceiling, std::vector<Row>& rows);

}  // namespace onecopy::bench
