#include "client/lib/files/client_copy.h"

#include "client/lib/calls/call_limit.h"
#include "client/lib/calls/waiter.h"
#include "client/lib/files/input_file.h"
#include "client/lib/files/windows.h"

namespace onecopy {

FileCopy client::ClientCopy(const std::string& node, bool reads_file, uint64_t bytes,
                            uint64_t parts, std::chrono::steady_clock::time_point began) {
  FileCopy copy;
  copy.bytes = bytes;
  Receipt& receipt = copy.receipt;
  receipt.path = "client";
  receipt.steps.push_back({ClientStep(node, reads_file), bytes});
  receipt.ranges = receipt.merged_ranges = parts;
  receipt.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - began).count();
  receipt.asked_seconds = receipt.seconds;
  if (receipt.seconds > 0) receipt.bytes_per_second = static_cast<double>(bytes) / receipt.seconds;
  return copy;
}

Endpoint client::OwnMemoryEnd(const Client& client) {
  Endpoint end;
  end.node = client.node();
  end.file = "(memory of the client)";
  return end;
}

Result<FileCopy> CopyFileToMemory(Client& client, const LocalFile& source,
                                  std::span<const FileMemory> parts,
                                  const FileCopyOptions& options) {
  const auto began = std::chrono::steady_clock::now();
  const client::CallLimit limit(client::CallLimit::For(options.deadline));
  ONECOPY_ASSIGN_OR_RETURN(const auto waiter, client::Waiter::Make(options.stop, options.deadline));
  uint64_t bytes = 0;
  for (const FileMemory& part : parts) {
    ONECOPY_ASSIGN_OR_RETURN(
        client::InputFile input,
        client::InputFile::Open({source.path, source.fd, part.offset_bytes, part.bytes}));
    ONECOPY_ASSIGN_OR_RETURN(const uint64_t got, input.Read(part.memory, part.bytes, *waiter));
    bytes += got;
  }
  return client::ClientCopy(client.node(), true, bytes, parts.size(), began);
}

}  // namespace onecopy
