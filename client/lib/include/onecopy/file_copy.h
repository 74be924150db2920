// Copies files of this machine to and from buffers of any node. The daemon itself moves a regular
// file or block device, by a descriptor that the caller opened. The path is storage-direct or
// storage-bounce for a buffer of this node, and storage-bounce+tcp-bounce or similar for a buffer
// of another node. Everything else goes through transient host buffers ("windows"), so that a file
// of any size needs little memory: this process reads or writes one window while another one moves.
// Windows are also used if a policy asks for another path, or if the daemon of either node is too
// old.
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

// A file to read or to write. A regular file or block device has a known length. A pipe, socket or
// character device is a stream, whose length is unknown.
struct LocalFile {
  std::string path = {};  // of the file, or the name of the descriptor in messages
  int fd = -1;  // an open descriptor, borrowed, used from its position on; -1: opens `path`
  std::optional<uint64_t> offset_bytes = {};
  std::optional<uint64_t> bytes = {};
  // Of a file that is written: an open folder, borrowed, for which O_PATH will do. The file is the
  // one that has the last name of `path` there, whatever the rest of that leads to; a symbolic link
  // of that name is refused (FAILED_PRECONDITION, ACCESS_DENIED). -1: `path` is followed.
  int folder_fd = -1;
  // Of a file that is written as a whole: whether all who may read it may also run it. Absent: like
  // the file that it replaces, and a new one not.
  std::optional<bool> executable = {};
};

struct FileCopyOptions {
  // at_most_copies also counts the copies between file and memory.
  Policy policy = {};
  // Compare the checksums of both ends: of what was read or written here and of every window's
  // other end; or of the file, which is read once more, and the buffer.
  bool checksum = false;
  // For a file that is written: return when its bytes and its name are on the disk (fsync).
  // INVALID_ARGUMENT (BAD_ARGUMENT) for a stream.
  bool sync = false;
  // Allows a block device as the destination, which usually holds a file system or is a whole disk.
  // Without it: INVALID_ARGUMENT (BAD_ARGUMENT). A device that is in use, such as a mounted one, is
  // refused anyway (FAILED_PRECONDITION, DEVICE_IN_USE), unless you pass an open descriptor.
  bool write_device = false;
  // Only these ranges, in one transfer; see TransferRequest::ranges. Offsets count from the
  // beginning of each end. A file is then written in place, and must exist. UNIMPLEMENTED
  // (NOT_SERVED) for a copy that goes through windows.
  std::vector<RangePair> ranges = {};
  // Continues a copy between one whole file and a buffer that was cut off, as by the end of this
  // process: only those blocks of 1 MiB move whose checksums (xxh3-128) differ at both ends, so the
  // caller must be allowed to read the buffer. A file that is written keeps what arrived under the
  // name `.NAME.onecopy-part` beside it until it is complete, for the next copy with this option; a
  // file that is complete already is left alone. FAILED_PRECONDITION (FILE_IN_USE) while another
  // client continues the same file; INVALID_ARGUMENT (BAD_ARGUMENT) for a stream, for a device or a
  // range that is written, with `ranges`, and for several files or buffers. A buffer that is
  // written is compared once, before anything moves: a copy into it that was just cut off, of
  // another file or another state of this one, may still write blocks after that; and
  // arrival_watch.h tells its arrivals only of what moves, so that nothing arrives where all was
  // there.
  bool resume = false;
  std::optional<std::chrono::milliseconds> deadline = {};  // of the whole copy
  Pacing pacing = {};       // of the whole copy; of several files or buffers, of each transfer
  TraceContext trace = {};  // of every transfer; see TransferRequest::trace
  uint64_t window_bytes = uint64_t{32} << 20;
  unsigned windows = 2;  // at least 1

  // Called on the calling thread, now and then, with the payload that has arrived, and the whole,
  // if known.
  std::function<void(uint64_t bytes_done, std::optional<uint64_t> bytes_total)> on_progress = {};
  // A requested stop cancels the copy's transfers; the call then waits until they have ended.
  std::stop_token stop = {};
};

struct FileCopy {
  TransferId id;         // of the whole
  uint64_t windows = 0;  // number of parts; 0 where the daemon moved the file
  uint64_t bytes = 0;    // that were moved
  // With `resume`: bytes that were at the destination already. Where that is all, nothing was
  // moved: `id` and the receipt are empty.
  uint64_t proven_bytes = 0;
  // With windows: the receipt of all together. `steps` has each step once, with the bytes of all
  // windows, and a step by "client" between file and window, as the first or the last. Lanes,
  // refusals and counters are merged likewise. `seconds` is the elapsed time from the first read to
  // the last write, including the time spent waiting for a slow pipe; `negotiation_seconds` is a
  // sum.
  Receipt receipt;
};

// Each function blocks until the bytes have arrived, or until the failure is final: then nothing
// uses the memory or the file any more. An error says how much had moved.

// Copies a file into a buffer. If the source is longer than the destination's range, fails with
// INVALID_ARGUMENT (SIZE_MISMATCH): before any byte moves if its length is known, else when the
// range is full. A shorter source fills the beginning of the range.
Result<FileCopy> CopyFileToBuffer(Client& client, const LocalFile& source,
                                  const Endpoint& destination, const FileCopyOptions& options = {});

// Copies a file into several buffers, of any nodes, and reads it once. Each piece goes into one of
// them (the first that is on this node, else the first in the list), and from there into the
// others, while the next piece is read. Returns one copy for each destination, in the order of the
// list. The receipt of a destination that got its bytes from another one describes only that step,
// and names the other one in its evidence ("copied_from"). INVALID_ARGUMENT (BAD_ARGUMENT) for a
// stream, for ranges, for a path or link, for no destination, and for one that is given twice.
// After a failure, each buffer may have some of the bytes.
Result<std::vector<FileCopy>> CopyFileToEach(Client& client, const LocalFile& source,
                                             const std::vector<Endpoint>& destinations,
                                             const FileCopyOptions& options = {});

// A file, or a part of a file with a given length, and its place in the range of a buffer.
struct PlacedFile {
  LocalFile file = {};
  uint64_t offset_bytes = 0;
};

// Copies many files, in the order of their places, into one buffer, by few transfers. Windows hold
// several files, one behind the other, so small files cost little. The gaps between the files
// become zeros; nothing else is written. For large files, CopyFileToBuffer takes a better path.
// Blocks, and fails, like CopyFileToBuffer; INVALID_ARGUMENT (BAD_ARGUMENT) if files overlap.
Result<FileCopy> CopyFilesToBuffer(Client& client, std::span<const PlacedFile> files,
                                   const Endpoint& destination,
                                   const FileCopyOptions& options = {});

// A file with a given length, at least 1 byte, and the buffer at whose beginning it goes.
struct FileToBuffer {
  LocalFile file = {};
  Endpoint buffer = {};
};

// Copies many small files, each into its own buffer, all on one node, by few transfers: each
// transfer carries as many files as a window and a request can hold. Returns one receipt for all;
// its checksum is the last transfer's. Blocks, and fails, like CopyFileToBuffer; INVALID_ARGUMENT
// (BAD_ARGUMENT) for a file that does not fit in a window. After a failure, some buffers may have
// their file.
Result<FileCopy> CopyFilesToBuffers(Client& client, std::span<const FileToBuffer> files,
                                    const FileCopyOptions& options = {});

// Copies a buffer into a file. A new file, or a regular file without a range, is written under a
// temporary name beside it (without a name, if the file system can do that), and gets its name at
// the end: after a failure, or if this process is killed, nothing has changed. The new file gets
// these from an existing one: mode, access list, `user.*` attributes that the caller may read, and
// the owner if the caller may give files away. Other hard links keep the old bytes. Zeros of 32 KiB
// or more become a hole. A range of a file, a device, a pipe and an open descriptor are written in
// place. RESOURCE_EXHAUSTED (NO_SPACE) if the disk is full. A symbolic link of another user is not
// followed in a sticky folder that all users may write to. Elsewhere, root follows it only to files
// of that user. Both also hold if somebody exchanges files meanwhile (PERMISSION_DENIED).
Result<FileCopy> CopyBufferToFile(Client& client, const Endpoint& source,
                                  const LocalFile& destination,
                                  const FileCopyOptions& options = {});

// A part of a file, and the range of a buffer that it goes to or comes from. The range must have
// `bytes`.
struct FilePiece {
  uint64_t offset_bytes = 0;  // in the file
  Endpoint buffer = {};
};

// What was moved between a file and one buffer. The two ends reach from the first piece to the
// last.
struct PiecesCopy {
  Endpoint file;
  Endpoint buffer;
  FileCopy copy;
};

// Copies parts of one file, such as a container file, into buffers. If the daemon moves the file,
// there is one request for all pieces of one buffer; else one copy for each piece. The buffers
// follow one after another, in the order in which the pieces first name them. The file is opened
// once, or `fd` is used; so another file that gets the same name meanwhile is not read. Blocks, and
// fails, like CopyFileToBuffer; INVALID_ARGUMENT (BAD_ARGUMENT) for a stream, and for a piece
// without bytes.
Result<std::vector<PiecesCopy>> CopyFileToBuffers(Client& client, const LocalFile& source,
                                                  std::span<const FilePiece> pieces,
                                                  const FileCopyOptions& options = {});

// Bytes of a file that the caller has itself, such as a container's head. `is_payload`: whether the
// receipt counts them. Payload is, for example, an array so small that a request for it would take
// longer than copying it.
struct FileText {
  uint64_t offset_bytes = 0;
  std::string_view bytes = {};
  bool is_payload = false;
};

// Copies parts of buffers and these texts into a file. The file is written as a whole: the old file
// stays until texts and pieces are all there, and after a failure. Bytes that neither covers are
// zero. Texts that are payload make one copy, the first of those returned, whose only step is by
// "client". ABORTED (MEMORY_FAULT) if the memory of a text cannot be read.
Result<std::vector<PiecesCopy>> CopyBuffersToFile(Client& client, std::span<const FileText> texts,
                                                  std::span<const FilePiece> pieces,
                                                  const LocalFile& destination,
                                                  const FileCopyOptions& options = {});

// A part of a file, and memory of this process for it.
struct FileMemory {
  uint64_t offset_bytes = 0;
  std::byte* memory = nullptr;
  uint64_t bytes = 0;
};

// Reads parts of a regular file into memory, without the daemon: for so few bytes that a request
// would take longer than reading them. The receipt has one step, by "client", and no id, because
// the daemon does not know of it. Of the options, only `deadline` and `stop` are used. Fails like
// CopyFileToBuffer.
Result<FileCopy> CopyFileToMemory(Client& client, const LocalFile& source,
                                  std::span<const FileMemory> parts,
                                  const FileCopyOptions& options = {});

// The path that CopyFileToBuffer or CopyBufferToFile would take, without touching the destination.
// For a stream, the plan is for one window.
Result<Plan> PlanFileToBuffer(Client& client, const LocalFile& source, const Endpoint& destination,
                              const FileCopyOptions& options = {});
Result<Plan> PlanBufferToFile(Client& client, const Endpoint& source, const LocalFile& destination,
                              const FileCopyOptions& options = {});

}  // namespace onecopy
