// Registers many pieces of this process's memory, by calls that are under way together.
#pragma once

#include <vector>

#include "client/lib/session/connection.h"
#include "onecopy/buffer.h"
#include "onecopy/result.h"

namespace onecopy::client {

// See Client::RegisterAll. Blocks until the last call has ended; any thread.
std::vector<Result<BufferInfo>> RegisterAll(Connection& connection,
                                            const std::vector<MemoryToRegister>& memory);

}  // namespace onecopy::client
