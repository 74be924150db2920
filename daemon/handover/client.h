// Fetches memory that another daemon of this host offers.
#pragma once

#include <chrono>

#include "daemon/handover/server.h"

namespace onecopy::handover {

struct Fetched {
  ImportRequest memory;  // its descriptor is `fd`; complete for Memory::Import
  os::UniqueFd fd;
};

// Blocks, no longer than `patience`. What comes is what the other daemon says it is, no more: to be
// imported with the same care as a client's. UNAVAILABLE where nobody listens or answers, which it
// is in another network namespace; PERMISSION_DENIED for another user's socket or a token that is
// not known (any more).
Result<Fetched> Fetch(const Address& address, std::chrono::milliseconds patience);

}  // namespace onecopy::handover
