// A copy of which a part is at its destination already.
#pragma once

#include <vector>

#include "client/lib/files/moved_file.h"
#include "client/lib/files/proof.h"
#include "client/lib/memory/remote_range.h"
#include "onecopy/file_copy.h"
#include "onecopy/range.h"
#include "onecopy/result.h"

namespace onecopy::client {

// INVALID_ARGUMENT (BAD_ARGUMENT) with FileCopyOptions::resume, where a copy has several of these.
Status RefuseResume(const FileCopyOptions& options, const std::string& several);
// Likewise with `resume` and `ranges`.
Status CheckResume(const FileCopyOptions& options);

// As `options`, with progress that begins behind what was proven.
FileCopyOptions OptionsAfter(const Proof& proof, const FileCopyOptions& options);

// These pieces of a file and a buffer's range, as one request to the daemon.
struct PiecesRequest {
  FilePart file;
  RemoteRange range;
  FileCopyOptions options;
};
PiecesRequest RequestOf(FilePart file, const RemoteRange& range,
                        const std::vector<ByteRange>& pieces, const FileCopyOptions& options);

// What is told where nothing was moved.
FileCopy AllProven(uint64_t bytes);

uint64_t BytesOf(const std::vector<ByteRange>& pieces);

}  // namespace onecopy::client
