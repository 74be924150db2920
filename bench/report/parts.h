// What a page is made of, beside small pieces of HTML (text.h).
#pragma once

#include <string>
#include <vector>

#include "bench/measure/row.h"

namespace onecopy::bench {

// <figure>s: rate over size and share of the ceiling over size, for paths between nodes and inside
// one; direct over staged; rate and CPU cost over copies. A drawing that would be empty is left
// out.
std::string ChartsOf(const std::vector<Row>& rows);

// What the rows that have one reach of what they are to reach; empty where there are none.
std::string TargetsTable(const std::vector<Row>& rows);

// All rows that were measured or FAILED, in sections by what they are about, each with why it is
// not OK; then those that could not run, by what kept them.
std::string AllTables(const std::vector<Row>& rows);

// How it looks: CSS.
extern const char kStyle[];

}  // namespace onecopy::bench
