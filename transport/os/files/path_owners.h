// Whether other users can exchange what a path leads to.
#pragma once

#include <string>

#include "onecopy/status.h"

namespace onecopy::os {

enum class PathTrust {
  // What others can make lies only where all may write: so a daemon's run directory is found, which
  // may be a service's user's.
  kWhereShared,
  // Root and this user alone own and change everything on the way, and what lies there: so is
  // what this user's programs load.
  kOwnersAlone,
};

// Follows the path name by name, and symbolic links as the kernel does; what is not there yet ends
// it. PERMISSION_DENIED (ACCESS_DENIED), with the name on the way: for what another user owns in a
// folder that others may write to, be it sticky or not, for what lies in one that is not sticky,
// and with kOwnersAlone for what another user owns at all, and for a folder at the end that others
// may write to. The user's own group and root's are not others. Where root has no number in this
// user namespace, files without an owner there may be root's, and count as root's. Looks only once:
// if no other user could exchange a path then, none can later.
Status CheckPathOwners(const std::string& path, PathTrust trust);

}  // namespace onecopy::os
