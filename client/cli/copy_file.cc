#include "client/cli/copy_file.h"

#include <utility>

namespace onecopy::cli {

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
  Move move;
  move.id = copied->id;
  move.parts = copied->windows;
  move.source = ends.source.typed;
  move.destination = ends.destination.typed;
  move.bytes = copied->bytes;
  move.receipt = std::move(copied->receipt);
  return move;
}

}  // namespace onecopy::cli
