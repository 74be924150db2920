// Inside the planner: on which NUMA node the slots between a file and a GPU's memory are best.
#pragma once

#include <cstdint>
#include <string>

#include "onecopy/capability.h"
#include "transport/core/contracts/store.h"

namespace onecopy::plan {

struct SlotsPlace {
  int32_t numa_node = -1;  // -1: anywhere, as nothing is known, or there is only one
  std::string why;         // for people; empty where anywhere
};

// Every byte goes from the drive into a slot, and from there to the memory at the other end. On
// either end's own NUMA node it passes the link between nodes once, where they are apart, and on no
// other node less often. Of these equals it is the GPU's: what waits longer there is the drive,
// which has many pieces under way.
SlotsPlace PlaceSlots(const NodeCapability& node, const MemoryCapability& memory,
                      const DrivePlace& drive);

}  // namespace onecopy::plan
