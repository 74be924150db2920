// bench/ingest, which has rows of its own.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/measure/row.h"
#include "onecopy/result.h"

namespace onecopy::bench {

struct IngestParams {
  std::string folder = {};   // that bench/competitors/install --ingest has made; empty: none
  std::string run_dir = {};  // of the daemon that loads
  pid_t daemon = 0;
  std::vector<uint64_t> sizes = {};  // of models
  unsigned samples = 1;
  std::function<bool()> stopped = {};  // true ends it, with the rows until then
};

// FAILED_PRECONDITION (NOT_REQUESTED) without a folder, NOT_FOUND (FILE_NOT_FOUND) where it is not
// installed there.
Status CheckIngest(const std::string& folder);

// Its rows, judged once more here. Blocks for minutes. CheckIngest's errors, and UNAVAILABLE
// (TOOL_FAILED) with its last words where it ends without rows.
Result<std::vector<Row>> RunIngest(const IngestParams& params);

}  // namespace onecopy::bench
