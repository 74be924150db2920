// Resolves names of machines.
#pragma once

#include <string>
#include <vector>

#include "onecopy/result.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::os {

// Whether the host is an address rather than a name.
bool IsAddress(const std::string& host);

// The addresses that a name has, in the system's order, or the address itself. May block for long.
// NOT_FOUND where there is none.
Result<std::vector<HostPort>> Resolve(const HostPort& where);

}  // namespace onecopy::os
