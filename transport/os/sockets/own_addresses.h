// The addresses of this machine.
#pragma once

#include <string>
#include <vector>

#include "onecopy/result.h"
#include "transport/os/sockets/host_port.h"

namespace onecopy::os {

struct OwnAddress {
  std::string device;  // "eth0"
  std::string address;
};

// Those of devices that are up, without loopback and link-local ones, in the kernel's order; each
// once.
std::vector<OwnAddress> OwnAddresses();

// The address of this machine from which it would reach `where`, whose host must be an address.
// Sends no packet. UNAVAILABLE if this machine has no route to it.
Result<std::string> SourceTowards(const HostPort& where);

}  // namespace onecopy::os
