// Holds a work against its ceiling.
#pragma once

#include <functional>
#include <memory>

#include "bench/measure/mover.h"
#include "bench/measure/row.h"

namespace onecopy::bench {

struct CompareOptions {
  unsigned samples = 1;
  std::function<bool()> stopped = {};  // asked before each sample; true ends the run
};

// Makes the ceiling once the work's warm-up has told how it moved (over how many lanes).
using MakeCeiling = std::function<Result<std::unique_ptr<Mover>>(const Moved& warm_up)>;

// `row` says what is compared: work, path, bytes, ceiling, floor. After one warm-up of each, work
// and ceiling take turns, and who begins takes turns too: whatever else the machine does meets both
// alike. Every payload has a seed of its own and is verified after its move. The row comes back
// judged; FAILED with the reason of what failed where something did, and CANCELLED where it was
// stopped.
Row Compare(Row row, Mover& work, const MakeCeiling& make_ceiling, const CompareOptions& options);

}  // namespace onecopy::bench
