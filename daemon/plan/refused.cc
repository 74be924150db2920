#include "daemon/plan/refused.h"

#include "daemon/plan/ladder.h"
#include "onecopy/reasons.h"

namespace onecopy::plan {

bool CouldNotApply(const std::string& reason) {
  return reason == reasons::kNotApplicable || reason == reasons::kSameNode ||
         reason == reasons::kOtherNode;
}

const Refusal* BestRefused(const std::vector<Refusal>& refused) {
  for (const Rung& rung : kLadder) {
    for (const Refusal& refusal : refused) {
      if (RungNameOf(refusal.path) == rung.name && !CouldNotApply(refusal.reason)) return &refusal;
    }
  }
  return nullptr;
}

}  // namespace onecopy::plan
