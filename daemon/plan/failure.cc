#include "daemon/plan/failure.h"

#include <algorithm>
#include <array>

#include "daemon/plan/policy.h"
#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::plan {
namespace {

std::string Text(const End& end) {
  if (end.kind == kFileKind) return "a file of " + end.node->node;
  return (end.device.empty() ? end.kind + " memory" : end.device) + " of " + end.node->node;
}

std::string Text(const Path& path) {
  return path.path + " (" + std::to_string(path.copies()) +
         (path.copies() == 1 ? " copy" : " copies") +
         (path.link.empty() ? "" : ", link " + path.link) + (path.emulated ? ", emulated" : "") +
         ", " + FormatRate(path.estimated_bytes_per_second) + " " + BasisOf(path) + ")";
}

// The lowest rung asks least of the machines, so its obstacle is the one to remove; that a path is
// for other ends is not an obstacle.
const Refusal& Telling(const std::vector<Refusal>& refused) {
  constexpr std::array<std::string_view, 3> kOtherEnds = {reasons::kNotApplicable,
                                                          reasons::kSameNode, reasons::kOtherNode};
  const auto found = std::find_if(refused.rbegin(), refused.rend(), [&](const Refusal& refusal) {
    return std::find(kOtherEnds.begin(), kOtherEnds.end(), refusal.reason) == kOtherEnds.end();
  });
  return found == refused.rend() ? refused.back() : *found;
}

}  // namespace

Status Unmet(const Request& request, std::vector<Refusal> refused) {
  const std::string ends = Text(request.source) + " to " + Text(request.destination);
  const auto fail = [&refused](std::string message, std::string remedy) {
    return Status(Code::kFailedPrecondition, reasons::kPolicyUnmet, std::move(message),
                  std::move(remedy))
        .WithRefusals(std::move(refused));
  };
  const std::string policy = Describe(request.policy);
  if (!policy.empty()) {
    Request open = request;
    open.policy = {};
    if (const Result<Path> plan = MakePlan(open); plan.ok()) {
      return fail("no path from " + ends + " meets the policy " + policy + "; without it, " +
                      Text(*plan) + " would be taken",
                  "see the reason under each path, or accept path=" + plan->path);
    }
  }
  const Refusal& telling = Telling(refused);
  return fail("nothing can move bytes from " + ends + ": " + telling.path + ": " + telling.reason +
                  ": " + telling.detail,
              telling.remedy);
}

}  // namespace onecopy::plan
