#include "client/nixl/grants.h"

namespace onecopy::nixl {

Status GrantTo(Client& client, const std::string& buffer, const std::vector<std::string>& owners) {
  for (const std::string& owner : owners) {
    const auto grant =
        client.CreateGrant({.range = {.buffer = buffer}, .to = owner, .read = true, .write = true});
    if (!grant) return grant.status().WithContext("grant_to " + owner);
  }
  return OkStatus();
}

}  // namespace onecopy::nixl
