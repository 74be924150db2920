// Copies with a file of this process at one end.
#pragma once

#include <vector>

#include "client/cli/move_options.h"
#include "client/cli/output/document.h"
#include "onecopy/file_copy.h"

namespace onecopy::cli {

// Whichever end of the two is the file. `source_fd`: what is open of a source, borrowed; -1: it is
// opened by its name.
Result<Move> CopyFile(Client& client, const MoveEnds& ends, const FileCopyOptions& options,
                      int source_fd = -1);

// A buffer, or a range of one, into a file; which may be in an open folder.
Result<Move> CopyBufferTo(Client& client, const ParsedEndpoint& source, const LocalFile& file,
                          const FileCopyOptions& options);

// Many files into a buffer each, by few transfers; `buffers` as they are shown.
Result<Move> CopyFilesToTheirs(Client& client, const std::vector<FileToBuffer>& files,
                               const std::string& buffers, const FileCopyOptions& options);

// Many files into one buffer, by few transfers.
Result<Move> CopyFiles(Client& client, const std::vector<PlacedFile>& files,
                       const ParsedEndpoint& buffer, const FileCopyOptions& options);

// A file into each of these, read once.
Result<std::vector<Move>> CopyFileToAll(Client& client, const ParsedEndpoint& file,
                                        const std::vector<ParsedEndpoint>& buffers,
                                        const FileCopyOptions& options);

}  // namespace onecopy::cli
