// One name below a folder, found without following anything that leads elsewhere.
#pragma once

#include <string>

#include "onecopy/result.h"
#include "transport/os/unique_fd.h"

namespace onecopy::os {

// What `path`, relative to the folder, names: a descriptor of O_PATH's. Nothing but folders is met
// on the way: no symbolic link, no "..", none of the kernel's own links, and whatever is exchanged
// meanwhile; a link at the end is itself. Empty on failure, and errno says why: ELOOP or EXDEV for
// a link. Blocks as the file system does. By openat2, or where this process may not call that (a
// kernel before Linux 5.6, a filter as systemd's RestrictSUIDSGID=), folder by folder.
UniqueFd LookBeneath(int folder, const std::string& path);

// What errno says of a name below an exported folder, in the terms of OpenBeneath and
// OutputBeneath::Open. `doing`: "opening", "writing".
Status FailureBeneath(int error, const std::string& doing, const std::string& name,
                      const std::string& remedy = {});

}  // namespace onecopy::os
