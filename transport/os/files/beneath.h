// Files below a folder, and nothing else that a path could lead to.
#pragma once

#include <string>

#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"
#include "transport/os/files/look_beneath.h"

namespace onecopy::os {

// One regular file, opened twice where its file system takes O_DIRECT.
struct FileBeneath {
  UniqueFd plain;
  UniqueFd direct;  // empty if that does not work, or was not wanted
};

// Opens the file at `path`, relative to the folder `root`, for reading. Blocks as the file system
// does, as LookBeneath finds it: nothing leads out of the folder, and of symbolic links only those
// lead on that `links` says. Only regular files are opened, and nothing else even for a moment.
// A hard link counts as the file that it names. NOT_FOUND (FILE_NOT_FOUND), also of the root;
// PERMISSION_DENIED (ACCESS_DENIED) for a link and for what this process may not read;
// INVALID_ARGUMENT (BAD_HANDLE) for what is not a regular file. Messages call the file `name`.
Result<FileBeneath> OpenBeneath(const std::string& root, const std::string& path,
                                const std::string& name, bool direct, Links links = Links::kNone);

}  // namespace onecopy::os
