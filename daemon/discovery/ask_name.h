// Which node is at an address, as its certificate says.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "transport/os/sockets/host_port.h"
#include "transport/tls/identity.h"

namespace onecopy::discovery {

// The one node that a certificate is for: of its URIs "onecopy://NAME", else of its DNS names,
// those that can be a node's. It must be signed by an authority of `identity` and valid for a
// server. UNAUTHENTICATED (CERT_REJECTED) otherwise, and where it is for several nodes.
Result<std::string> NodeOf(const tls::Chain& presented, const tls::Identity& identity);

// Connects to each address, 64 at a time, and gives the name of the node there, in order; each has
// `limit`. Nothing but a TLS handshake is said, and this node shows its own certificate.
// UNAVAILABLE (PEER_DOWN) where nothing answers. Blocks; `ended` is asked now and then, and ends it
// early.
std::vector<Result<std::string>> AskNames(const std::vector<os::HostPort>& where,
                                          const std::shared_ptr<const tls::Identity>& identity,
                                          std::chrono::milliseconds limit,
                                          const std::function<bool()>& ended);

}  // namespace onecopy::discovery
