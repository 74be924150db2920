#include "transport/link/ucx/trust.h"

#include <algorithm>

namespace onecopy::ucx {

AddressSource SourceFor(const TrustSettings& settings, const std::string& peer) {
  const auto& trusted = settings.trusted;
  const bool listed = std::find(trusted.begin(), trusted.end(), peer) != trusted.end();
  // A name without proof is not trusted.
  return listed && settings.authenticated ? AddressSource::kMessage : AddressSource::kSameUser;
}

bool TrustsAnyone(const TrustSettings& settings) {
  return settings.authenticated && !settings.trusted.empty();
}

}  // namespace onecopy::ucx
