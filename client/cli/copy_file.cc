#include "client/cli/copy_file.h"

#include <utility>

namespace onecopy::cli {
namespace {

Move MoveOfFile(const ParsedEndpoint& source, const ParsedEndpoint& destination, FileCopy copied,
                const FileCopyOptions& options) {
  Move move;
  if (options.resume) move.proven_bytes = copied.proven_bytes;
  move.id = copied.id;
  move.parts = copied.windows;
  move.source = source.typed;
  move.destination = destination.typed;
  move.bytes = copied.bytes;
  move.receipt = std::move(copied.receipt);
  move.trace = options.trace;
  return move;
}

std::string TypedOf(const std::string& first, size_t count) {
  return first + (count > 1 ? " and " + std::to_string(count - 1) + " more" : "");
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
  return MoveOfFile(ends.source, ends.destination, std::move(*copied), options);
}

Result<Move> CopyBufferTo(Client& client, const ParsedEndpoint& source, const LocalFile& file,
                          const FileCopyOptions& options) {
  ParsedEndpoint destination;
  destination.typed = file.path;
  ONECOPY_ASSIGN_OR_RETURN(FileCopy copied,
                           CopyBufferToFile(client, source.ToEndpoint(), file, options));
  return MoveOfFile(source, destination, std::move(copied), options);
}

Result<Move> CopyFilesToTheirs(Client& client, const std::vector<FileToBuffer>& files,
                               const std::string& buffers, const FileCopyOptions& options) {
  ParsedEndpoint source;
  source.typed = TypedOf(files.front().file.path, files.size());
  ParsedEndpoint destination;
  destination.typed = buffers;
  ONECOPY_ASSIGN_OR_RETURN(FileCopy copied, CopyFilesToBuffers(client, files, options));
  return MoveOfFile(source, destination, std::move(copied), options);
}

Result<Move> CopyFiles(Client& client, const std::vector<PlacedFile>& files,
                       const ParsedEndpoint& buffer, const FileCopyOptions& options) {
  ParsedEndpoint source;
  source.typed = TypedOf(files.front().file.path, files.size());
  ONECOPY_ASSIGN_OR_RETURN(FileCopy copied,
                           CopyFilesToBuffer(client, files, buffer.ToEndpoint(), options));
  return MoveOfFile(source, buffer, std::move(copied), options);
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
    moves.push_back(MoveOfFile(file, buffers[i], std::move(copied[i]), options));
  }
  return moves;
}

}  // namespace onecopy::cli
