// A region's bytes prepared for another process, with the descriptors that it needs.
#pragma once

#include <vector>

#include "onecopy/result.h"
#include "transport/core/contracts/import_request.h"
#include "transport/core/contracts/region.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::engine {

struct SharedMemory {
  ImportRequest memory;           // its descriptors are these
  std::vector<os::UniqueFd> fds;  // the memory's, in the order of its allocations
};

// As Region::Share; on the worker of the memory.
Result<SharedMemory> Share(Region& region);

}  // namespace onecopy::engine
