// By which paths long transfers would reach this node.
#pragma once

#include <string>

#include "daemon/engine/api/figures.h"
#include "daemon/engine/probing/planning.h"
#include "onecopy/capability.h"

namespace onecopy::engine {

// "host"; of a GPU "cuda:0".
std::string MemoryName(const MemoryCapability& memory);

// Engine thread. From host memory of that node, and from its first GPU that can be used, to the
// same of this one: at most four plans. No ways from a node of which nothing is known.
NodeWays WaysFrom(const std::string& node, const Planning& planning);

}  // namespace onecopy::engine
