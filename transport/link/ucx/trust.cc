#include "transport/link/ucx/trust.h"

#include <algorithm>

#include "transport/core/reasons.h"

namespace onecopy::ucx {

Result<AddressSource> Judge(const TrustSettings& settings, const std::string& peer) {
  // A name on loopback proves nothing, also where it is listed.
  if (settings.loopback_only) return AddressSource::kSameUser;
  const auto& trusted = settings.trusted;
  const bool listed = std::find(trusted.begin(), trusted.end(), peer) != trusted.end();
  if (listed && settings.authenticated) return AddressSource::kMessage;
  if (listed) {
    return Status(Code::kPermissionDenied, reasons::kInsecure,
                  "node " + peer + " is trusted for ucx, but its name is not proven without [tls]",
                  "set [tls] ca, certificate and key on both nodes");
  }
  return Status(Code::kPermissionDenied, reasons::kAccessDenied,
                "node " + peer + " is not trusted for ucx, whose keys let a peer write memory",
                "add \"" + peer + "\" to [ucx] trust where it may, or use the link verbs");
}

Status CheckTrustSettings(const TrustSettings& settings) {
  if (settings.loopback_only) return OkStatus();
  if (settings.trusted.empty()) {
    return {Code::kFailedPrecondition, reasons::kInsecure,
            "no node is trusted for ucx, whose keys let a peer write memory",
            "name the nodes that may under [ucx] trust, or use the link verbs"};
  }
  if (!settings.authenticated) {
    return {Code::kFailedPrecondition, reasons::kInsecure,
            "nodes are trusted for ucx by their names, which are not proven without [tls]",
            "set [tls] ca, certificate and key"};
  }
  return OkStatus();
}

}  // namespace onecopy::ucx
