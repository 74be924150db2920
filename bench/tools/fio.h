// fio, the usual program to measure a disk.
#pragma once

#include <memory>
#include <string>

#include "bench/measure/mover.h"
#include "bench/tools/tool_mover.h"

namespace onecopy::bench {

struct FioParams {
  std::string file = {};  // in a folder that is there; made by fio, which goes on using it
  uint64_t bytes = uint64_t{1} << 30;
  bool writes = false;
  unsigned depth = 8;
  uint64_t call_bytes = uint64_t{1} << 20;
};

// Its io_uring with O_DIRECT, one job, once for each sample. It looks at nothing that it moves. As
// FindTool.
Result<std::unique_ptr<Mover>> MakeFio(const FioParams& params);

struct FioSaid {
  double bytes_per_second = 0;
  double cpu_seconds = 0;
  double mean_latency_seconds = 0;  // of one call
};

// What its report of one job (--output-format=json) says. UNAVAILABLE (TOOL_FAILED) where that is
// no such report, tells an error, or that nothing was moved.
Result<FioSaid> ReadFioReport(const std::string& report, bool writes);

}  // namespace onecopy::bench
