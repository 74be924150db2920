// Reports onecopy's failures to NIXL, which has a number for each kind and no text: the text goes
// to standard error.
#pragma once

#include <string_view>

#include "client/nixl/abi.h"
#include "onecopy/status.h"

namespace onecopy::nixl {

// kRemoteDisconnected, upon which NIXL forgets the other agent's metadata, only where its process
// has gone. A buffer that is not found may be there again under its name: after a restart of the
// other's daemon until that agent has registered again.
abi::Outcome OutcomeFor(const Status& status);

// Writes one line, except for success and for what was cancelled, and returns OutcomeFor.
abi::Outcome Say(std::string_view what, const Status& status);

}  // namespace onecopy::nixl
