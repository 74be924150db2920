// Rights of other owners on what an agent has.
#pragma once

#include <string>
#include <vector>

#include "onecopy/client.h"

namespace onecopy::nixl {

// Each of the owners may read and write the buffer from now on. As Client::CreateGrant.
Status GrantTo(Client& client, const std::string& buffer, const std::vector<std::string>& owners);

}  // namespace onecopy::nixl
