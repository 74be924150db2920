// Rows as HTML tables.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/row.h"

namespace onecopy::bench {

// What the rows that have one reach of what they are to reach; empty where there are none.
std::string TargetsTable(const std::vector<Row>& rows);

// All rows that were measured or FAILED, in sections by what they are about, each with why it is
// not OK; then those that could not run, by what kept them.
std::string AllTables(const std::vector<Row>& rows);

}  // namespace onecopy::bench
