// A transfer's activity on this node.
#pragma once

#include <cstdint>
#include <string>

#include "transport/core/link.h"
#include "transport/core/status.h"

namespace onecopy::engine {

// Engine thread. Kept by the table of transfers until it says that it has ended.
class Run {
 public:
  virtual ~Run() = default;

  // Ends the transfer early, for this reason. What moves is let go first; a run that is ending goes
  // on ending.
  virtual void Cancel(const Status& why) = 0;
  // About ten times a second.
  virtual void Tick() = 0;
  // A connection on which this node reads is gone.
  virtual void LoseReading(const Connection&, const Status&) {}
};

}  // namespace onecopy::engine
