#include "client/cli/copy_file.h"

#include <utility>

namespace onecopy::cli {
namespace {

Move MoveOfFile(const ParsedEndpoint& source, const ParsedEndpoint& destination, FileCopy copied) {
  Move move;
  move.id = copied.id;
  move.parts = copied.windows;
  move.source = source.typed;
  move.destination = destination.typed;
  move.bytes = copied.bytes;
  move.receipt = std::move(copied.receipt);
  return move;
}

}  // namespace

Result<Move> CopyFile(Client& client, const MoveEnds& ends, const FileCopyOptions& options,
                      int source_fd) {
  const bool from_file = ends.source.kind != ParsedEndpoint::Kind::kBuffer;
  LocalFile source;
  if (from_file) source = ToLocalFile(ends.source, true);
  if (source_fd >= 0) source.fd = source_fd;
  auto copied = from_file ? CopyFileToBuffer(client, source, ends.destination.ToEndpoint(), options)
                          : CopyBufferToFile(client, ends.source.ToEndpoint(),
                                             ToLocalFile(ends.destination, false), options);
  if (!copied.ok()) return copied.status();
  return MoveOfFile(ends.source, ends.destination, std::move(*copied));
}

Result<Move> CopyFiles(Client& client, const std::vector<PlacedFile>& files,
                       const ParsedEndpoint& buffer, const FileCopyOptions& options) {
  ParsedEndpoint source;
  source.typed = files.front().file.path;
  if (files.size() > 1) source.typed += " and " + std::to_string(files.size() - 1) + " more";
  ONECOPY_ASSIGN_OR_RETURN(FileCopy copied,
                           CopyFilesToBuffer(client, files, buffer.ToEndpoint(), options));
  return MoveOfFile(source, buffer, std::move(copied));
}

Result<std::vector<Move>> CopyFileToAll(Client& client, const ParsedEndpoint& file,
                                        const std::vector<ParsedEndpoint>& buffers,
                                        const FileCopyOptions& options) {
  std::vector<Endpoint> ends;
  for (const ParsedEndpoint& buffer : buffers) ends.push_back(buffer.ToEndpoint());
  ONECOPY_ASSIGN_OR_RETURN(std::vector<FileCopy> copied,
                           CopyFileToEach(client, ToLocalFile(file, true), ends, options));
  std::vector<Move> moves;
  for (size_t i = 0; i < copied.size(); ++i) {
    moves.push_back(MoveOfFile(file, buffers[i], std::move(copied[i])));
  }
  return moves;
}

}  // namespace onecopy::cli
