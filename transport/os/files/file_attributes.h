// A file's attributes beside its bytes, mode and owner.
#pragma once

#include <string>

#include "onecopy/status.h"

namespace onecopy::os {

// Gives the file `to`, which this process owns and whose mode is set, the access list of `from` (an
// O_PATH descriptor will do), or none where that has none, whatever `to` has inherited from its
// folder; and, as far as this process may read and write them, the attributes `user.*` and
// `security.selinux`. Capabilities and signatures of the old bytes are not for new ones. Fails
// where the access list cannot be kept: the mode alone might let more users in. Messages call it
// `label`.
Status CopyAttributes(int from, int to, const std::string& label);

}  // namespace onecopy::os
