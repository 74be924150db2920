// Memory of this node, lent to a bench that runs on another one.
#pragma once

#include <functional>
#include <ostream>
#include <string>

#include "onecopy/result.h"

namespace onecopy::bench {

struct LendOptions {
  std::string run_dir = {};  // of the daemon; empty: the default one
  uint64_t bytes = 0;        // of each buffer
  std::string to = {};       // the user that may use them, "1000@east"; empty: only their owner
  std::function<bool()> stopped = {};
};

// Makes one buffer of host memory and one of each of the first two GPUs, says so, and removes them
// once `stopped` says yes; also when it fails.
Status Lend(const LendOptions& options, std::ostream& out);

}  // namespace onecopy::bench
