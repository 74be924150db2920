// Names in requests, and foreign texts in our messages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

#include "daemon/engine/api/ids.h"
#include "onecopy/result.h"
#include "transport/os/machine/machine.h"

namespace onecopy::engine {

// INVALID_ARGUMENT (BAD_NAME) unless it is one; `what` says of what ("buffer").
Status CheckName(const std::string& name, const std::string& what);

// The text with everything unprintable replaced, cut to a length fit for a message.
std::string Printable(const std::string& text);

inline constexpr size_t kMaxIdBytes = 64;  // of what a client or a peer calls an id

// Of a transfer, a series or a push: made by the node that coordinates it, said by others.
inline TransferId NewTransferId() { return TransferId(os::RandomHex(8)); }

// Of a transfer by a ring: both sides of the ring make it from what they know.
TransferId RingTransferId(const std::string& prefix, uint64_t number);
// Whether it can be such an id; one that NewTransferId made cannot.
bool MayBeOfRing(const TransferId& id);

}  // namespace onecopy::engine
