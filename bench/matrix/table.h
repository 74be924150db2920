// The matrices for people.
#pragma once

#include <ostream>

#include "bench/matrix/figures.h"

namespace onecopy::bench {

// The GPUs, and then a matrix for each figure, as p2pBandwidthLatencyTest and nvbandwidth print
// them: a row for each GPU that the bytes leave, a column for each that they reach. A figure that
// is not there is "no P2P", "failed" or "-" (stopped); lines below its matrix say why.
void PrintMatrix(const Matrix& matrix, std::ostream& out);

}  // namespace onecopy::bench
