// Fetches memory that another daemon of this host offers.
#pragma once

#include <chrono>

#include "daemon/handover/server.h"

namespace onecopy::handover {

struct Fetched {
  ImportRequest memory;  // its descriptor is `fd`; complete for Memory::Import
  os::UniqueFd fd;
};

// Blocks, no longer than `patience`. The other daemon's word is all that
// is known of the memory, so import it with the same care as a client's. UNAVAILABLE if no daemon
// listens or answers, as in another network namespace; PERMISSION_DENIED for another user's socket
// or a token that is not known (any more).
Result<Fetched> Fetch(const Address& address, std::chrono::milliseconds patience);

}  // namespace onecopy::handover
