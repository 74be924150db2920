// What is between two buffers, in a transfer of several: requests of their own, and whether they
// get in each other's way.
#pragma once

#include <string>
#include <vector>

#include "daemon/engine/api/peer_api.h"

namespace onecopy::engine {

// The part's request, as if it were a transfer by itself. INVALID_ARGUMENT for parts from several
// nodes, or to a destination that there is not.
Result<std::vector<StartRequest>> PartsOf(const StartRequest& whole);

// Each part by itself has been checked; `planned` says which ranges of which buffers of which nodes
// it means. INVALID_ARGUMENT (RANGES_OVERLAP) where a part writes what another one reads, or where
// a destination buffer is named more than once and what is meant there may overlap.
Status CheckPartsApart(const StartRequest& whole, const std::vector<StartRequest>& parts,
                       const std::vector<TransferInfo>& planned);

// What the whole is before it begins: the sum of what is planned. Its plan is that of the part with
// the most copies, under the names of all paths.
TransferInfo Summary(const StartRequest& whole, const std::vector<TransferInfo>& planned);

}  // namespace onecopy::engine
