// `cp` of several files and of folders.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "client/cli/deadline.h"
#include "client/cli/file_set.h"
#include "client/cli/session.h"
#include "onecopy/file_copy.h"

namespace onecopy::cli {

struct ManyCopies {
  std::vector<std::string> sources;   // files and folders here
  std::string destination;            // "NODE:" or ":" for a buffer each, else one buffer for all
  std::optional<std::string> create;  // memory of what is to be made
  bool keep_failed = false;           // rather than removing what was made for a copy that failed
  std::string message;                // for the one buffer's watcher, once all bytes are there
};

// Whether that is a copy of several files: of more than one source, of a folder, or to a node.
bool IsOfMany(const std::vector<std::string>& sources, const std::string& destination);

// The files that the sources are, or have in them. Looks at no daemon.
Result<FileSet> FilesOf(const ManyCopies& copies);

// Prints a summary, and a line for each of what was left out. The deadline is that of all together.
// What was made for them goes where one fails.
Status CopyMany(Session& session, Client& client, const ManyCopies& copies, FileSet set,
                const Deadline& deadline, const FileCopyOptions& options);

}  // namespace onecopy::cli
