// The pages of memory files.
#pragma once

#include "onecopy/status.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/memory/mapping.h"

namespace onecopy::os {

// Gives a mapping of a memory file all of its pages now: the file has no holes then, and code that
// touches the mapping waits for nothing. Takes as long as the first touch of each page would have
// (below half a second a GiB, on the NUMA node of the calling thread). RESOURCE_EXHAUSTED
// (NO_MEMORY), before any page is taken where the machine, or the process's control group, has less
// than that left.
Status MakePages(const UniqueFd& file, const Mapping& mapping);

}  // namespace onecopy::os
