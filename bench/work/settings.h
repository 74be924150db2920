// The settings of a run of the bench.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "bench/daemons/daemon.h"
#include "bench/daemons/environment.h"
#include "bench/measure/compare.h"
#include "bench/measure/row.h"

namespace onecopy::bench {

struct Settings {
  DaemonOptions daemon = {};
  GivenDaemons given = {};                // of which works that can use them do
  uint64_t bytes = uint64_t{1} << 30;     // payload of works that move some; at least 1
  std::vector<uint64_t> sizes = {bytes};  // of those that are measured at several; ascending
  std::vector<unsigned> lanes = {0};      // over tcp, one after the other; 0: the daemon's choice
  unsigned samples = 5;                   // after one warm-up; at least 1
  std::string link_keys = {};             // lines of the link's section, in works over RDMA devices
  std::string competitors = {};  // folder that bench/competitors/install has made; empty: none
  std::vector<std::string> loss_interfaces = {};              // that a work may cut; empty: none
  unsigned cycles = 100;                                      // of loss and return
  std::chrono::milliseconds idle = std::chrono::seconds(10);  // how long idle daemons are watched
  std::function<bool()> stopped = {};                         // true: no further sample

  CompareOptions compare() const { return {samples, stopped}; }
  // What takes microseconds is measured more often.
  CompareOptions CompareAt(uint64_t size) const {
    return {size <= kSmallBytes ? samples * kMoreSamples : samples, stopped};
  }

 private:
  static constexpr uint64_t kSmallBytes = uint64_t{1} << 20;
  static constexpr unsigned kMoreSamples = 4;
};

// Whether this machine has the memory for `copies` times so many bytes. RESOURCE_EXHAUSTED
// (NO_MEMORY) where not.
Status CheckHostMemory(uint64_t bytes, unsigned copies);

// The row of a work that could not be set up: WAIVED where there was no room for it, or
// nothing lent, else FAILED.
Row NotSetUp(Row row, const Status& why);

}  // namespace onecopy::bench
