// The file in which a copy that may be continued gathers its bytes, beside the file that it
// becomes.
#pragma once

#include <sys/types.h>

#include <string>

#include "client/lib/calls/waiter.h"
#include "client/lib/files/named_file.h"
#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::client {

// It is called as its target with a dot before and `.onecopy-part` behind, so that there is one for
// each target, which the next copy finds. It belongs to the caller, is a regular file and has no
// other name. What it contains is not trusted: see proof.h.
struct PartialFile {
  std::string name;  // in the target's folder
  // Open for reading and writing. Its lock lasts for as long as a daemon has it, too, which may
  // outlive the client that passed it.
  os::UniqueFd file;
  // Of this process alone: its lock says that a client uses the file.
  os::UniqueFd claim;
};

// Opens it, or makes it with that mode under the umask; messages call the target `label`.
// FAILED_PRECONDITION (FILE_IN_USE) where another client uses it, or where the daemon still writes
// for one that has ended after 10 s, which this blocks for as long as `waiter` lets it;
// INVALID_ARGUMENT (BAD_ARGUMENT) for a link, a folder or anything else in its place;
// PERMISSION_DENIED (NOT_OWNER) for a file of another user.
Result<PartialFile> OpenPartialFile(const NamedFile& target, const std::string& label, mode_t mode,
                                    const Waiter& waiter);

}  // namespace onecopy::client
