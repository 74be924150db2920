// Compares a transfer's rate with what was measured before for its path.
#pragma once

#include <cstdint>
#include <string>

#include "daemon/engine/api/types.h"
#include "daemon/engine/probing/path_rates.h"
#include "daemon/engine/probing/probes.h"
#include "daemon/plan/path_rate.h"

namespace onecopy::engine {

// Engine thread.
class RateWatch {
 public:
  RateWatch(PathRates& rates, Probes& probes) : rates_(rates), probes_(probes) {}

  struct Made {
    std::string node;  // that the bytes came from; this one: inside it
    plan::PathKey way;
    uint64_t bytes = 0;
    double probed_bytes_per_second = 0;  // what a probe of the path found; 0: there was none
  };
  // Of a transfer that moved its bytes in one piece, with both nodes to itself, and in the time
  // that its receipt says. Keeps its rate for the plans of the next; one that was far slower than
  // its path has been says so in its receipt (`alarm`) and in the log, and is counted. What is too
  // short to tell anything is left alone.
  void Note(const Made& made, TransferInfo& info);

 private:
  PathRates& rates_;
  Probes& probes_;
};

}  // namespace onecopy::engine
