// Rows for people.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "bench/measure/row.h"

namespace onecopy::bench {

// "26.2 GB/s", "1.5 ms": a value of this unit.
std::string ValueText(Unit unit, double value);

// Aligned columns with titles; below them, for each row that is not OK, why.
void PrintTable(const std::vector<Row>& rows, std::ostream& out);

}  // namespace onecopy::bench
