#include "client/lib/files/resumed_copy.h"

#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::client {

Status RefuseResume(const FileCopyOptions& options, const std::string& several) {
  if (!options.resume) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadArgument,
          "only a copy between one file and one buffer can be continued, and there are several " +
              several,
          "copy one by one, or leave out --resume (FileCopyOptions::resume)"};
}

Status CheckResume(const FileCopyOptions& options) {
  if (!options.resume || options.ranges.empty()) return OkStatus();
  return {Code::kInvalidArgument, reasons::kBadArgument,
          "--resume finds out itself which ranges are missing, so it does not go with --ranges",
          "leave out one of the two"};
}

FileCopyOptions OptionsAfter(const Proof& proof, const FileCopyOptions& options) {
  FileCopyOptions after = options;
  if (!options.on_progress) return after;
  after.on_progress = [proven = proof.proven_bytes, &options](uint64_t done,
                                                              std::optional<uint64_t> total) {
    if (total) *total += proven;
    options.on_progress(proven + done, total);
  };
  return after;
}

PiecesRequest RequestOf(FilePart file, const RemoteRange& range,
                        const std::vector<ByteRange>& pieces, const FileCopyOptions& options) {
  PiecesRequest request{std::move(file), range, options};
  if (pieces.size() == 1 && options.ranges.empty()) {
    request.file.offset += pieces.front().offset;
    request.range.offset += pieces.front().offset;
    // Of a new file it is all; its length stays what the caller says.
    if (pieces.front().bytes != range.bytes) {
      request.file.bytes = request.range.bytes = pieces.front().bytes;
    }
  } else if (pieces.size() > 1) {
    for (const ByteRange& piece : pieces) {
      const StridedRange same{piece.offset, piece.bytes};
      request.options.ranges.push_back({same, same});
    }
  }
  return request;
}

FileCopy AllProven(uint64_t bytes) {
  FileCopy copy;
  copy.proven_bytes = bytes;
  return copy;
}

uint64_t BytesOf(const std::vector<ByteRange>& pieces) {
  uint64_t bytes = 0;
  for (const ByteRange& piece : pieces) bytes += piece.bytes;
  return bytes;
}

}  // namespace onecopy::client
