// Inside the planner: which paths the caller accepts.
#pragma once

#include <optional>
#include <string>

#include "daemon/plan/candidates.h"
#include "onecopy/status.h"

namespace onecopy::plan {

// INVALID_ARGUMENT (BAD_POLICY) for a policy that no two nodes could ever meet.
Status CheckPolicy(const Policy& policy, const NodeCapability& source,
                   const NodeCapability& destination);

// Why the policy excludes this path; nothing where it accepts it.
std::optional<Refusal> Objection(const Policy& policy, const Path& path);

// "path=rdma-* at-most=1 link=verbs", for people.
std::string Describe(const Policy& policy);

}  // namespace onecopy::plan
