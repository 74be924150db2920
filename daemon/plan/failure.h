// Inside the planner: the error if no path is left.
#pragma once

#include <vector>

#include "daemon/plan/planner.h"

namespace onecopy::plan {

// FAILED_PRECONDITION (POLICY_UNMET) with every refusal. Says what would be taken without the
// policy or, where nothing would, what stands in the way of the simplest path.
Status Unmet(const Request& request, std::vector<Refusal> refused);

}  // namespace onecopy::plan
