// Measures a transfer and its ceiling, for all works that compare the two.
#pragma once

#include "bench/measure/compare.h"
#include "bench/work/settings.h"
#include "bench/work/transfer_mover.h"

namespace onecopy::bench {

struct HoldOptions {
  // How many payloads of host memory work and ceiling need together, at most: the windows of both
  // ends, and both ends of a ceiling.
  unsigned payloads_in_memory = 4;
  // Whether a missing path is an error, and not a fact about the machine.
  bool must_be_there = false;
};

// Measures the way's transfer of row.bytes beside its ceiling. WAIVED if there is not enough room,
// or the path does not exist here.
Compared HoldTransfer(Row row, const TransferParams& params, const MakeCeiling& make_ceiling,
                      const Settings& settings, const HoldOptions& options = {});

}  // namespace onecopy::bench
