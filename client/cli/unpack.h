// `cp` of a buffer with an index of files, back into a folder.
#pragma once

#include "client/cli/deadline.h"
#include "client/cli/move_options.h"
#include "client/cli/session.h"
#include "onecopy/file_copy.h"

namespace onecopy::cli {

// Whether these ends ask for that: a whole buffer, and a folder here, or a name that ends in '/'.
bool IsUnpack(const MoveEnds& ends);

// Writes each file below the folder, which is created if it does not exist, and prints a summary.
// Follows no symbolic link below the folder. A file that replaces another one keeps its mode and
// owner, but whether it is executable is as the index says. INVALID_ARGUMENT (BAD_FORMAT) for a
// buffer without an index; what was written before a failure stays. The deadline is that of all
// files together.
Status Unpack(Session& session, Client& client, const MoveEnds& ends, const Deadline& deadline,
              const FileCopyOptions& options);

}  // namespace onecopy::cli
