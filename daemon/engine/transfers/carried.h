// What a transfer's lost tries moved, for its receipt.
#pragma once

#include <vector>

#include "daemon/engine/base/move.h"
#include "onecopy/transfer.h"

namespace onecopy::engine {

struct Carried {
  std::vector<ExecutedStep> steps;
  std::vector<LaneBytes> lanes;
  double seconds = 0;
  double held_seconds = 0;  // of them, by rate limits
  int tries = 0;            // that moved bytes

  void Add(const MoveOutcome& outcome);
  // Adds all of it to the receipt, which shows the last try.
  void AddTo(Receipt* receipt) const;
};

}  // namespace onecopy::engine
