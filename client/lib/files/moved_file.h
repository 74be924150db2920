// Copies whose file the daemon itself reads or writes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "client/lib/calls/waiter.h"
#include "client/lib/memory/remote_range.h"
#include "onecopy/client.h"
#include "onecopy/file_copy.h"

namespace onecopy::client {

// A part of an open file; the descriptor is borrowed.
struct FilePart {
  std::string name = {};
  int fd = -1;
  uint64_t offset = 0;
  uint64_t bytes = 0;   // with ranges: room for them
  bool writes = false;  // into the file
  bool is_new = false;  // it reads as zeros up to its length
};

// Whether the daemon does this one: it must offer to, and the file must be a regular one of a file
// system that answers or a block device, and the policy one that storage paths can meet. Everything
// else goes through windows.
bool DaemonMoves(const Client& client, const FilePart& file, const RemoteRange& range,
                 const FileCopyOptions& options);

// Whether MoveFile or PlanFile failed so because a daemon, this one or the buffer's, is too old to
// move files between nodes: windows do, as everywhere else.
bool MayGoByWindows(const Client& client, const RemoteRange& range, const Status& failure);

// Where the daemon does not: UNIMPLEMENTED (NOT_SERVED) for ranges, which go no other way.
Status CheckRanges(const FileCopyOptions& options, const std::string& file);

// Where the last of them ends at that side. What does not fit into 64 bits, the daemon refuses.
uint64_t EndOf(const std::vector<RangePair>& ranges, StridedRange RangePair::*side);

// Blocks, as file_copy.h says.
Result<FileCopy> MoveFile(Client& client, const FilePart& file, const RemoteRange& range,
                          const FileCopyOptions& options, const Waiter& waiter);
Result<Plan> PlanFile(Client& client, const FilePart& file, const RemoteRange& range,
                      const FileCopyOptions& options);

}  // namespace onecopy::client
