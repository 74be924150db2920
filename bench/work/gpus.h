// The GPUs that works use.
#pragma once

#include <string>
#include <vector>

#include "bench/ceiling/gpu.h"
#include "bench/daemons/node.h"
#include "onecopy/client.h"

namespace onecopy::bench {

// The GPUs that a node can use, as cuda:0, cuda:1 and so on, or of which memory was lent there; at
// least one. Else the reason why there is none.
Result<std::vector<MemoryCapability>> UsableGpus(const Node& node);

// Two GPUs of a node that reach each other, or why none do.
Status CheckPeers(const std::vector<MemoryCapability>& gpus);

}  // namespace onecopy::bench
