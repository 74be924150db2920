// What a node can do, for people.
#pragma once

#include <ostream>

#include "onecopy/node.h"

namespace onecopy::cli {

// Who it is; then each memory, link (with its network devices) and store: "yes", or why not and
// what to do about it.
void PrintNode(std::ostream& out, const NodeInfo& node);

}  // namespace onecopy::cli
