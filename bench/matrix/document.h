// The matrices for programs; bench/README.md says what each key means.
#pragma once

#include <string>

#include "bench/matrix/figures.h"
#include "bench/measure/row_json.h"

namespace onecopy::bench {

// A JSON object, ending in a newline. A figure that is not there is null; `missing` of its pair
// says why, by the figure's key.
std::string MatrixDocument(const Matrix& matrix, const RunFacts& run);

}  // namespace onecopy::bench
