// What probes found, for people.
#pragma once

#include <ostream>
#include <vector>

#include "onecopy/node.h"

namespace onecopy::cli {

// A line for each way between two memories, with all lanes together, and one for each pair of
// devices, each after `indent`.
void PrintProbes(std::ostream& out, const std::vector<ProbeInfo>& probes,
                 const std::string& indent);

}  // namespace onecopy::cli
