// What the refusals of a plan say of it.
#pragma once

#include <string>
#include <vector>

#include "onecopy/status.h"

namespace onecopy::plan {

// Whether this reason says that a path does not apply at all, which no operator can change.
bool CouldNotApply(const std::string& reason);

// The best path, by the ladder, that applied and was refused; null if none was.
const Refusal* BestRefused(const std::vector<Refusal>& refused);

}  // namespace onecopy::plan
