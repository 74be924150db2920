// Namespaces that a process shows by descriptors of its own.
#pragma once

#include <cstdint>

#include "onecopy/result.h"
#include "transport/os/machine/namespaces.h"

namespace onecopy::os {

// What `seen` lacks of the process with that number, filled in from descriptors of its user and PID
// namespaces (/proc/self/ns). A process has such a descriptor if it is in there, or has a
// debugger's rights over a process that is. It never replaces what the kernel shows by itself, so a
// process cannot show the namespaces of this process, or a user namespace other than its own where
// that is seen.
//
// INVALID_ARGUMENT (BAD_HANDLE) for other descriptors, for namespaces that cannot be the
// process's: a PID namespace that it is not in (Linux 6.11 tells), or that belongs to another user
// namespace than its own and those around that; and for this process's own.
Result<ProcessNamespaces> WithShown(ProcessNamespaces seen, int32_t pid, int user_fd, int pid_fd);

}  // namespace onecopy::os
