// The figures of transfers by a daemon, for every pair of a machine's GPUs.
#pragma once

#include <functional>
#include <string>

#include "bench/daemons/daemon.h"
#include "bench/matrix/figures.h"

namespace onecopy::bench {

struct ByDaemonOptions {
  DaemonOptions daemon;
  std::function<bool()> stopped = {};                  // asked before each sample
  std::function<void(const std::string&)> began = {};  // told what is measured now
};

// Starts a daemon and fills in onecopy_… of each of `matrix->pairs`: transfers between two buffers
// of the daemon, requested by a client one after the other by the best path, timed by the client's
// clock from the request to the answer; the bytes are verified. What cannot be measured says so in
// its figure. An error: the daemon did not start.
Status MeasureByDaemon(const ByDaemonOptions& options, Matrix* matrix);

}  // namespace onecopy::bench
