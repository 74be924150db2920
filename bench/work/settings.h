// What a run of the bench was asked for.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/daemons/daemon.h"
#include "bench/measure/compare.h"
#include "bench/measure/row.h"

namespace onecopy::bench {

struct Settings {
  DaemonOptions daemon = {};
  uint64_t bytes = uint64_t{1} << 30;  // payload of works that move some; at least 1
  unsigned samples = 5;                // after one warm-up; at least 1
  std::string link_keys = {};          // lines of the link's section, in works over RDMA devices
  std::vector<std::string> loss_interfaces = {};              // that a work may cut; empty: none
  unsigned cycles = 100;                                      // of loss and return
  std::chrono::milliseconds idle = std::chrono::seconds(10);  // how long idle daemons are watched
  std::function<bool()> stopped = {};                         // true: no further sample

  CompareOptions compare() const { return {samples, stopped}; }
};

// Whether this machine has the memory for `copies` times the payload. RESOURCE_EXHAUSTED
// (NO_MEMORY) where not.
Status CheckHostMemory(const Settings& settings, unsigned copies);

// The row of a work that could not be set up: WAIVED where there was no room for it, else FAILED.
Row NotSetUp(Row row, const Status& why);

}  // namespace onecopy::bench
