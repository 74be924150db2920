// What a node can do, for people.
#pragma once

#include <ostream>
#include <vector>

#include "onecopy/node.h"

namespace onecopy::cli {

// The matrix of distances between its devices.
void PrintTopology(std::ostream& out, const NodeCapability& node);

// Who it is; then each memory, link (with its network devices) and store: "yes", or why not and
// what to do about it; last, the matrix.
void PrintNode(std::ostream& out, const NodeInfo& node);

// A line for each way between two memories, with all lanes together, and one for each pair of
// devices, each after `indent`.
void PrintProbes(std::ostream& out, const std::vector<ProbeInfo>& probes,
                 const std::string& indent);

}  // namespace onecopy::cli
