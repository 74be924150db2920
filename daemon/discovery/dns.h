// Discovery by DNS: one name lists all nodes, by SRV records or by addresses.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "daemon/discovery/discovery.h"
#include "transport/os/sockets/host_port.h"
#include "transport/tls/trust.h"

namespace onecopy::discovery {

struct DnsOptions {
  std::string name;  // in full; one that begins with '_' has SRV records
  std::optional<os::HostPort> server;
  uint16_t port = 0;                  // of nodes that only have an address
  std::shared_ptr<tls::Trust> trust;  // asks these for their names; not null unless SRV
};

// Begins the thread `discovery`, which asks again when the answer's TTL has passed (between a
// second and five minutes), and soon after a failure. A node that is missing in one good answer is
// kept until it is missing in the next one, too. Of a name that is at several addresses, the
// address from before is kept while it is among them. Looking up the addresses of all SRV targets
// that come without takes at most kLookLimit (dns_nodes.h), or has failed. Throws std::system_error
// where the process may have no more threads. `sink` must outlive it.
std::unique_ptr<Discovery> StartDns(DnsOptions options, Sink& sink);

}  // namespace onecopy::discovery
