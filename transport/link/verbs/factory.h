// The verbs link's entry in the list of backends.
#pragma once

#include "transport/core/contracts/backend.h"

namespace onecopy::verbs {

Backend<Link> Describe();

}  // namespace onecopy::verbs
