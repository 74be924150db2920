// Two connected daemons of the bench's own.
#pragma once

#include <memory>

#include "bench/daemons/daemon.h"

namespace onecopy::bench {

struct Pair {
  std::unique_ptr<Daemon> west;
  std::unique_ptr<Daemon> east;  // to which west was named as a peer

  // Returns once east sees west as connected; UNAVAILABLE where that takes too long. No
  // client stays connected.
  static Result<Pair> Start(const DaemonOptions& options) { return Start(options, options); }
  static Result<Pair> Start(const DaemonOptions& east, const DaemonOptions& west);
};

}  // namespace onecopy::bench
