// Rows for programs; bench/README.md says what each key means.
#pragma once

#include <string>
#include <vector>

#include "bench/measure/row.h"

namespace onecopy::bench {

// A JSON list with one object for each row, ending in a newline.
std::string ToJson(const std::vector<Row>& rows);

}  // namespace onecopy::bench
