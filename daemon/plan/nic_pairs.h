// Inside the planner: which network devices of two nodes work together, and with which memory.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "daemon/plan/candidates.h"
#include "daemon/plan/path_steps.h"

namespace onecopy::plan {

// Two devices that reach each other; both outlive the plan's making.
struct NicPair {
  const NicCapability* source = nullptr;
  const NicCapability* destination = nullptr;
  bool same_rail = false;  // by their names, or their places in their nodes' lists

  bool emulated() const { return source->emulated || destination->emulated; }
  uint64_t bytes_per_second() const;  // 0: unknown
};

// Viable on both sides, and on one fabric.
std::vector<NicPair> ReachablePairs(const LinkCapability& source,
                                    const LinkCapability& destination);

// The speed of the fastest of them that is hardware; 0 where none tells its speed.
uint64_t FastestWire(const LinkCapability& source, const LinkCapability& destination);

// "mlx5_0 of east is on rail0, mlx5_1 of east on rail1", for people.
std::string DescribeFabrics(const LinkCapability& link, const NodeCapability& node);

struct PairUse {
  NicPair pair;
  Staging staging;
  Wire wire;
};

struct PairChoice {
  std::vector<PairUse> uses;
  Viability why;  // where there is no use: what the pair that came closest cannot do
};

// For each way to stage that the rung's shape allows, the best pair that registers the memories
// concerned and that no probe has seen fail: one of hardware and one emulated, as far as there are.
// The best is the fastest, as measured where both are and else by what the devices say of
// themselves; of equals one on the same rail, and of those the one that is nearest to the memories.
PairChoice ChoosePairs(const Rung& rung, const Ends& ends, const std::string& link,
                       const std::vector<NicPair>& pairs);

}  // namespace onecopy::plan
