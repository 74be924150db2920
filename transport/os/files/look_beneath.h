// One name below a folder, found without following anything that leads elsewhere.
#pragma once

#include <string>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::os {

// Which symbolic links lead on.
enum class Links {
  kNone,
  kBeneath,  // those whose text is relative and that stay below the folder at each step
};

// What `path`, relative to the folder, names: a descriptor of O_PATH's. Nothing leads out of the
// folder, whatever is exchanged meanwhile: no link but those that `links` says, no "..", in the
// path or beyond the folder in a link, none of the kernel's own links. With kNone a link at the end
// is itself. Empty on failure, and errno says why: ELOOP or EXDEV for a link. Blocks as the file
// system does. By openat2, or where this process may not call that (a kernel before Linux 5.6, a
// filter as systemd's RestrictSUIDSGID=), folder by folder.
UniqueFd LookBeneath(int folder, const std::string& path, Links links = Links::kNone);

// What errno says of a name below an exported folder, in the terms of OpenBeneath and
// OutputBeneath::Open. `doing`: "opening", "writing".
Status FailureBeneath(int error, const std::string& doing, const std::string& name,
                      const std::string& remedy = {});

}  // namespace onecopy::os
