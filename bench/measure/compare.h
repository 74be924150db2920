// Compares a work with its ceiling.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "bench/measure/mover.h"
#include "bench/measure/row.h"

namespace onecopy::bench {

struct CompareOptions {
  unsigned samples = 1;
  std::function<bool()> stopped = {};  // asked before each sample; true ends the run
};

// Makes the ceiling once the work's warm-up has told how it moved (over how many lanes). Null:
// there is none for what moved so, and the row has none.
using MakeCeiling = std::function<Result<std::unique_ptr<Mover>>(const Moved& warm_up)>;

struct Compared {
  Row row = {};  // judged
  // CPU seconds per 10^9 bytes, one for each sample; empty where they are not known.
  std::vector<double> cpu = {};
  std::vector<double> ceiling_cpu = {};
};

// `row` says what is compared: work, path, bytes, ceiling, floor. After one warm-up of each, work
// and ceiling take turns, and which of them begins takes turns, too: whatever else the machine does
// meets both alike. Every payload has a seed of its own and is verified after its move. The row
// comes back judged; FAILED with the reason of what failed where something did, and CANCELLED where
// it was stopped.
Compared CompareWithCpu(Row row, Mover& work, const MakeCeiling& make_ceiling,
                        const CompareOptions& options);
inline Row Compare(Row row, Mover& work, const MakeCeiling& make_ceiling,
                   const CompareOptions& options) {
  return CompareWithCpu(std::move(row), work, make_ceiling, options).row;
}

// What is measured on its own.
inline Result<std::unique_ptr<Mover>> NoCeiling(const Moved&) { return std::unique_ptr<Mover>(); }

// The row "cpu …" that goes with a comparison: CPU time of the work beside the ceiling's, of which
// `ceiling` is the part that tells it. WAIVED where neither is known.
Row CpuRow(const Compared& compared, const std::string& ceiling = "plain-sockets");

}  // namespace onecopy::bench
