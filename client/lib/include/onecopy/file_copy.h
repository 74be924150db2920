// Files of this process to and from buffers of any node. A regular file or block device the
// daemon moves itself, by a descriptor of the caller's: path storage-direct or storage-bounce where
// the buffer is of this node, and storage-bounce+tcp-bounce or the like where it is of another. All
// else goes through transient host buffers ("windows"), so that a file of any size needs little
// memory: one window is read or written here while another is on its way. A policy that asks for
// another path than those asks for windows; so does a daemon, of either node, that is too old.
#pragma once

#include "onecopy/language.h"  // first

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
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
  // Allows writing to a block device, which usually holds a file system or is a whole disk. Without
  // it: INVALID_ARGUMENT (BAD_ARGUMENT). One that is in use, as by a mount, is
  // refused anyway (FAILED_PRECONDITION, DEVICE_IN_USE), unless its open descriptor is given.
  bool write_device = false;
  // Only these, in one transfer, as TransferRequest::ranges; offsets count from where each end
  // begins. A file is then written in place, where it is there already. UNIMPLEMENTED (NOT_SERVED)
  // for what goes through windows.
  std::vector<RangePair> ranges = {};
  std::optional<std::chrono::milliseconds> deadline = {};  // of the whole copy
  uint64_t window_bytes = uint64_t{32} << 20;
  unsigned windows = 2;  // at least 1

  // On the calling thread, now and then: payload that has arrived, and the whole, if known.
  std::function<void(uint64_t bytes_done, std::optional<uint64_t> bytes_total)> on_progress = {};
  // A requested stop cancels the transfers of the windows and waits until they have ended.
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

// The same file into several buffers, of any nodes, and read once: each piece goes into one of
// them, the first that is of this node or else the first, and from there into the others, while the
// next is read. One copy for each destination, in their order. Of those that were copied onwards
// the receipt tells that way alone, and names where from in its evidence ("copied_from").
// INVALID_ARGUMENT (BAD_ARGUMENT) for a stream, for ranges, for a path or link, and for no
// destination or one that is given twice. After a failure each buffer may have got a part.
Result<std::vector<FileCopy>> CopyFileToEach(Client& client, const LocalFile& source,
                                             const std::vector<Endpoint>& destinations,
                                             const FileCopyOptions& options = {});

// A file, or a part of one, whose length is said, and where it goes in a buffer's range.
struct PlacedFile {
  LocalFile file = {};
  uint64_t offset_bytes = 0;
};

// Many files, in the order of their places, into one buffer, by few transfers: they are read into
// windows one behind the other, so that small ones cost little. What lies between them becomes
// zero, and nothing else is written. For files that are large, CopyFileToBuffer takes the shorter
// way. Blocks, and fails like it; INVALID_ARGUMENT (BAD_ARGUMENT) where files overlap.
Result<FileCopy> CopyFilesToBuffer(Client& client, std::span<const PlacedFile> files,
                                   const Endpoint& destination,
                                   const FileCopyOptions& options = {});

// A file of this length, which is something, and the buffer that it goes to the beginning of.
struct FileToBuffer {
  LocalFile file = {};
  Endpoint buffer = {};
};

// Many small files into a buffer each, all of one node, by few transfers: each carries as many as a
// window and a request take. One receipt for all; its checksum is the last transfer's. Blocks, and
// fails like CopyFileToBuffer; INVALID_ARGUMENT (BAD_ARGUMENT) for a file that a window does not
// take. After a failure some buffers may have got theirs.
Result<FileCopy> CopyFilesToBuffers(Client& client, std::span<const FileToBuffer> files,
                                    const FileCopyOptions& options = {});

// Writes a new file, or a regular file that is given without range, under a temporary name beside
// it, or none where the file system can do that, and gives it its name in the end: after a failure,
// or where this process is killed, nothing has changed. It takes after an existing file: mode,
// access list, `user.*` attributes as far as the caller may read them, and the owner where the
// caller may give files away; other hard links keep the old bytes. What is zero for 32 KiB and more
// becomes a hole. A range of a file, a device, a pipe and an open descriptor are written in place.
// RESOURCE_EXHAUSTED (NO_SPACE) when the disk is full. A symbolic link of another user is not
// followed out of a sticky folder that all may write to, and, for root, only to what belongs to
// that user (PERMISSION_DENIED), whatever is exchanged meanwhile.
Result<FileCopy> CopyBufferToFile(Client& client, const Endpoint& source,
                                  const LocalFile& destination,
                                  const FileCopyOptions& options = {});

// A part of a file, and where it goes to or comes from: a range of a buffer, whose `bytes` are
// given.
struct FilePiece {
  uint64_t offset_bytes = 0;  // in the file
  Endpoint buffer = {};
};

// What was moved between a file and one buffer. The two ends are from the first piece to the last.
struct PiecesCopy {
  Endpoint file;
  Endpoint buffer;
  FileCopy copy;
};

// Parts of one file, as of a container that others have defined: one request for all pieces that
// one buffer takes part in, where the daemon moves the file; else one copy for each piece. One
// buffer after the other, in the order in which they are named first. The file is opened once, or
// `fd` is used, so that one that gets its name meanwhile is not mistaken for it. Blocks, and fails
// like the two above; INVALID_ARGUMENT (BAD_ARGUMENT) for a stream, and for a piece without bytes.
Result<std::vector<PiecesCopy>> CopyFileToBuffers(Client& client, const LocalFile& source,
                                                  std::span<const FilePiece> pieces,
                                                  const FileCopyOptions& options = {});

// A part of a file that the caller has itself, as a container's head. `is_payload`: a part that a
// receipt counts, as an array that is so small that a request for it takes longer than its bytes.
struct FileText {
  uint64_t offset_bytes = 0;
  std::string_view bytes = {};
  bool is_payload = false;
};

// Likewise, into a file that has these texts, too. It is written as a whole: what was there stays
// until texts and pieces are all there, and after a failure. What neither has is zero. The texts
// that are payload are one copy, the first of those returned, whose one step is by "client".
// ABORTED (MEMORY_FAULT) where the memory of a text cannot be read.
Result<std::vector<PiecesCopy>> CopyBuffersToFile(Client& client, std::span<const FileText> texts,
                                                  std::span<const FilePiece> pieces,
                                                  const LocalFile& destination,
                                                  const FileCopyOptions& options = {});

// A part of a file, and memory of this process that has room for it.
struct FileMemory {
  uint64_t offset_bytes = 0;
  std::byte* memory = nullptr;
  uint64_t bytes = 0;
};

// Reads parts of a regular file into memory, without the daemon: for so few bytes that asking the
// daemon would take longer than reading them. The receipt has one step, by "client", and no id, as
// the daemon does not hear of it. Of the options only `deadline` and `stop` are used. Fails like
// CopyFileToBuffer.
Result<FileCopy> CopyFileToMemory(Client& client, const LocalFile& source,
                                  std::span<const FileMemory> parts,
                                  const FileCopyOptions& options = {});

// What the first two would do, without touching the destination. Where the source is a stream, for
// one window.
Result<Plan> PlanFileToBuffer(Client& client, const LocalFile& source, const Endpoint& destination,
                              const FileCopyOptions& options = {});
Result<Plan> PlanBufferToFile(Client& client, const Endpoint& source, const LocalFile& destination,
                              const FileCopyOptions& options = {});

}  // namespace onecopy
