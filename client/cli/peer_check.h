// Whether a peer answers where a configuration says that it does.
#pragma once

#include <chrono>
#include <memory>
#include <string>

#include "onecopy/result.h"
#include "transport/os/sockets/host_port.h"
#include "transport/tls/identity.h"

namespace onecopy::cli {

// Connects to `where`, which must be an address, and, with an `identity`, has the far end prove by
// its certificate that it is `node`, and accept this end's. Blocks, for at most `limit`.
// UNAVAILABLE (PEER_DOWN) where nothing answers, or what answers does not speak TLS;
// UNAUTHENTICATED (CERT_REJECTED) where it is not that node, or does not accept this one's
// certificate.
Status CheckPeer(const os::HostPort& where, const std::string& node,
                 const std::shared_ptr<const tls::Identity>& identity,
                 std::chrono::milliseconds limit);

}  // namespace onecopy::cli
