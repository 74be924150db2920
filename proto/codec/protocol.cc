#include "proto/codec/protocol.h"

#include <algorithm>

#include "onecopy/reasons.h"

namespace onecopy {

Result<uint32_t> AgreeOnClientProtocol(uint32_t min, uint32_t max, const std::string& version) {
  const uint32_t protocol = std::min(max, kClientProtocolMax);
  if (protocol >= min && protocol >= kClientProtocolMin) return protocol;
  return Status(Code::kFailedPrecondition, reasons::kPeerIncompatible,
                "the client speaks protocol " + std::to_string(min) + " to " + std::to_string(max) +
                    ", this daemon (" + version + ") " + std::to_string(kClientProtocolMin) +
                    " to " + std::to_string(kClientProtocolMax),
                "use neighbouring versions of the client library and the daemon");
}

}  // namespace onecopy
