// Files of this process to and from buffers of any node. A regular file the daemon moves itself, by
// a descriptor of the caller's: path storage-bounce where the buffer is of this node, and
// storage-bounce+tcp-bounce or the like where it is of another. All else goes through transient
// host buffers ("windows"), so that a file of any size needs little memory: one window is read or
// written here while another is on its way. A policy that asks for another path than those asks for
// windows; so does a daemon, of either node, that is too old.
#pragma once

#include "onecopy/language.h"  // first

#include <chrono>
#include <cstdint>
#include <functional>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "onecopy/client.h"
#include "onecopy/result.h"
#include "onecopy/transfer.h"

namespace onecopy {

// A file to read or to write. A regular file or block device has a known length; a pipe, socket or
// character device is a stream, which ends where it ends.
struct LocalFile {
  std::string path = {};  // of the file, or what messages call the descriptor
  int fd = -1;  // an open descriptor, borrowed and used from its position on; -1: opens `path`
  std::optional<uint64_t> offset_bytes = {};
  std::optional<uint64_t> bytes = {};
};

struct FileCopyOptions {
  // at_most_copies counts the passes between file and memory, too.
  Policy policy = {};
  // Compare checksums of both ends: of what was read or written here and of every window's other
  // end, or of the file, read once more, and the buffer.
  bool checksum = false;
  // Of a file that is written: the disk has it, and its name, before the copy has succeeded
  // (fsync). INVALID_ARGUMENT (BAD_ARGUMENT) for a stream.
  bool sync = false;
  std::optional<std::chrono::milliseconds> deadline = {};  // of the whole copy
  uint64_t window_bytes = uint64_t{32} << 20;
  unsigned windows = 2;  // at least 1

  // On the calling thread, now and then: payload that has arrived, and the whole, if known.
  std::function<void(uint64_t bytes_done, std::optional<uint64_t> bytes_total)> on_progress = {};
  // A requested stop cancels the transfers of the windows and waits until they have let go.
  std::stop_token stop = {};
};

struct FileCopy {
  TransferId id;         // of the whole
  uint64_t windows = 0;  // number of parts; 0 where the daemon moved the file
  uint64_t bytes = 0;
  // Of windows, of all together: `steps` has each step once, with the bytes of all, and between
  // file and window one by "client", first or last; lanes, refusals and counters are merged
  // likewise. `seconds` is the time on the clock from the first read to the last write, waiting for
  // a slow pipe included; `negotiation_seconds` adds up.
  Receipt receipt;
};

// Each blocks until the bytes have arrived, or until the failure is final: nothing uses the memory
// or the file any more. An error says how much had moved.

// A source longer than the destination's range fails with INVALID_ARGUMENT (SIZE_MISMATCH) before
// any byte moves where its length is known, else when the range is full; a shorter one fills the
// range's beginning.
Result<FileCopy> CopyFileToBuffer(Client& client, const LocalFile& source,
                                  const Endpoint& destination, const FileCopyOptions& options = {});

// Writes a new file, or a regular file that is given without range, under a temporary name beside
// it, and renames that in the end: after a failure nothing has changed. An existing file keeps its
// mode, and its owner where the caller may give files away; other hard links to it keep the old
// bytes. A range of a file, a device, a pipe and an open descriptor are written in place.
// RESOURCE_EXHAUSTED (NO_SPACE) when the disk is full. A symbolic link of another user is not
// followed out of a sticky folder that all may write to, and, for root, only to what belongs to
// that user (PERMISSION_DENIED), whatever is exchanged meanwhile.
Result<FileCopy> CopyBufferToFile(Client& client, const Endpoint& source,
                                  const LocalFile& destination,
                                  const FileCopyOptions& options = {});

// What the two above would do, without touching the destination. Where the source is a stream, for
// one window.
Result<Plan> PlanFileToBuffer(Client& client, const LocalFile& source, const Endpoint& destination,
                              const FileCopyOptions& options = {});
Result<Plan> PlanBufferToFile(Client& client, const Endpoint& source, const LocalFile& destination,
                              const FileCopyOptions& options = {});

}  // namespace onecopy
