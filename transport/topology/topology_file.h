// A topology that a person wrote, for machines whose own account is wrong or absent (virtual
// machines above all): the key `topology` of the daemon's configuration. Its form is in README.md.
#pragma once

#include <string>
#include <string_view>

#include "onecopy/result.h"
#include "onecopy/topology.h"

namespace onecopy {

// Its distances are believed, also in a virtual machine. NOT_FOUND for a file that is not there;
// INVALID_ARGUMENT (BAD_CONFIG) with everything that is wrong, one line each, "file:line: what".
Result<Topology> LoadTopologyFile(const std::string& file);
// The same for a text that came from `file`.
Result<Topology> ParseTopologyFile(std::string_view text, const std::string& file);

// The file, or what hwloc finds of this machine where `file` is empty.
Result<Topology> LoadTopology(const std::string& file);

}  // namespace onecopy
