// Which addresses a discovered entry may have.
#pragma once

#include <string>
#include <vector>

#include "onecopy/status.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::discovery {

struct AddressRules {
  os::HostPort own;             // where other nodes reach this one, as far as it knows
  bool beyond_machine = false;  // whether calls may leave this machine: [tls], or insecure = true
};

// HOST:PORT with a host of at most 253 plain characters and a port that can be connected to.
// INVALID_ARGUMENT (BAD_ENDPOINT) for anything else, and for an address that means every machine to
// itself: an unspecified one; one of loopback, unless this node is at one, too. PERMISSION_DENIED
// (INSECURE) for one of another machine, where calls may not leave this one.
Status CheckAddress(const std::string& address, const AddressRules& rules);

// Whether the address is this node's own: the same, or the same port at another address of this
// machine (`machine`, without ports).
bool IsOwnAddress(const std::string& address, const AddressRules& rules,
                  const std::vector<std::string>& machine);

}  // namespace onecopy::discovery
