// Rows for people.
#pragma once

#include <ostream>
#include <vector>

#include "bench/measure/row.h"

namespace onecopy::bench {

// Aligned columns with titles; below them, for each row that is not OK, why.
void PrintTable(const std::vector<Row>& rows, std::ostream& out);

}  // namespace onecopy::bench
