// The ids of transfers, series and pushes: made by the node that coordinates them, said by others.
#pragma once

#include <cstddef>

#include "daemon/engine/api/types.h"
#include "transport/os/machine.h"

namespace onecopy::engine {

inline constexpr size_t kMostIdBytes = 64;  // of what a client or a peer calls one

inline TransferId NewTransferId() { return TransferId(os::RandomHex(8)); }

}  // namespace onecopy::engine
