// Rows for spreadsheets.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/row.h"

namespace onecopy::bench {

// A line of titles, then one for each row (RFC 4180); keys as in JSON, without the single values.
std::string ToCsv(const std::vector<Row>& rows);

}  // namespace onecopy::bench
