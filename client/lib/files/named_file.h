// What a path names, found once and then held by descriptors.
#pragma once

#include <string>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"

namespace onecopy::client {

// Whatever others rename or link meanwhile, these stay what they are. Both descriptors are
// O_PATH's.
struct NamedFile {
  // The folder that has the file, under `name`, which is not a link. Empty if only the kernel names
  // it, such as a pipe that is /dev/fd/3.
  os::UniqueFd folder;
  std::string name;
  os::UniqueFd file;  // empty: there is nothing of that name in the folder

  // The file, for reading or writing as open(2)'s `flags` say; empty where it cannot be, or is
  // another one by now (errno says why, ESTALE for that). Blocks for a FIFO without reader.
  os::UniqueFd Reopen(int flags) const;
};

// INVALID_ARGUMENT (BAD_NAME) for a path with a zero byte, at which the kernel would end it, and so
// find another file.
Status CheckPath(const std::string& path);

// Follows symbolic links, as the kernel does, but to where they lead in this very walk. A link of
// another user than root and the caller is not followed out of a sticky folder that all may write
// to, and, where the caller is root, only to what belongs to that user: no other user can lead root
// elsewhere. NOT_FOUND where a folder on the way does not exist; INVALID_ARGUMENT for a link to
// nothing, and as CheckPath; PERMISSION_DENIED.
Result<NamedFile> FindNamedFile(const std::string& path);

// The file that an open folder has under the last name of `path`. FAILED_PRECONDITION
// (ACCESS_DENIED) for a symbolic link; as CheckPath.
Result<NamedFile> FindFileIn(int folder, const std::string& path);

}  // namespace onecopy::client
