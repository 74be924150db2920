// Runs code for a user, with only that user's rights.
#pragma once

#include <cstdint>

#include "transport/core/base/uid.h"

namespace onecopy::os {

// From now on this thread reaches files as that user, and without any capability: so quotas count,
// and a file that is written loses its set-user-ID bit. Nothing where this process is not root's,
// and so has nothing to lose, or where the user is root in the daemon's own namespaces. Signals and
// the rest of the process are as before. A thread cannot go back.
void ActFor(const Uid& user, uint32_t gid);

}  // namespace onecopy::os
