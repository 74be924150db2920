// Whose transfers rings carry.
#pragma once

#include <string>

#include "daemon/engine/base/context.h"
#include "daemon/engine/base/owners.h"

namespace onecopy::engine {

// Rings know no rate limits, and copies that they have begun do not give way. NOT_APPLICABLE for
// what `owner` asks for at the node `initiator`, to be written here, where one of [qos] limits it
// or gives it a low priority. Engine thread.
Status MayGoByRing(const Context& context, const Owner& owner, const std::string& initiator);

}  // namespace onecopy::engine
