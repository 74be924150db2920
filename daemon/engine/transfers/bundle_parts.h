// What is between two buffers, in a transfer of several: requests of their own, and whether they
// get in each other's way.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "daemon/engine/api/peer_api.h"
#include "daemon/engine/registry/places.h"

namespace onecopy::engine {

// The part's request, as if it were a transfer by itself. INVALID_ARGUMENT for parts from several
// nodes, or to a destination that there is not.
Result<std::vector<StartRequest>> PartsOf(const StartRequest& whole);

// An end of a part in memory of this node.
struct PartEnd {
  std::string buffer;  // its name
  BufferId memory;     // the buffer that has the memory, which several may be views of
  MemoryPlace place;
};

struct PartEnds {
  std::optional<PartEnd> source;  // where it is here
  PartEnd destination;
};

// Each part by itself has been checked. INVALID_ARGUMENT (RANGES_OVERLAP) where a part writes what
// another one reads or writes; RESOURCE_EXHAUSTED (QUOTA) where that takes too long to tell.
Status CheckPartsApart(const std::vector<PartEnds>& parts);

// What the whole is before it begins: the sum of what is planned. Its plan is that of the part with
// the most copies, under the names of all paths.
TransferInfo Summary(const StartRequest& whole, const std::vector<TransferInfo>& planned);

}  // namespace onecopy::engine
