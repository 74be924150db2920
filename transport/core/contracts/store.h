// Access to files: how one is opened, read into regions, and written from them.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "onecopy/capability.h"
#include "onecopy/range.h"
#include "onecopy/result.h"
#include "transport/core/base/executor.h"
#include "transport/core/base/uid.h"
#include "transport/core/base/unique_function.h"
#include "transport/core/contracts/region.h"

namespace onecopy {

// The kind of a place that is a file: Region::file() is then set.
inline constexpr const char* kFileKind = "file";

// How bytes come out of a file, or get into it.
enum class FilePass {
  kDirect,      // the device reads or writes the memory itself: one copy
  kPageCache,   // by way of the page cache: two
  kMemory,      // the file is memory, as on tmpfs: one, by the processor
  kHostBounce,  // a library took them through host memory, and the page cache as far as is known
  kGpuBounce,   // a library took them through other GPU memory
};

// Where the bytes of a file are kept, as far as that is known.
struct DrivePlace {
  std::vector<std::string> drives;  // by names that the topology of this machine has, too
  // To which all drives are near that have some of them; -1: not known, several, or this machine
  // has only one.
  int32_t numa_node = -1;
  std::string cpus;   // processors near to them, where `numa_node` is known
  std::string words;  // for people: "nvme0n1 (0000:01:00.0, NUMA node 1)", "not known: …"

  friend bool operator==(const DrivePlace&, const DrivePlace&) = default;
};

// One open file. Any thread, unless something else is said; nothing blocks.
class StoreFile {
 public:
  // Runs exactly once, on executor(), after nothing touches the memory any more; says how the bytes
  // went. Must not block.
  using Done = UniqueFunction<void(Status, FilePass)>;

  virtual ~StoreFile() = default;

  virtual const std::string& name() const = 0;  // for messages
  // When it was opened. Of one that is written, how far it may grow.
  virtual uint64_t bytes() const = 0;

  // Reads fill the whole span: DATA_LOSS (IO_ERROR) where the file has become too short. The spans
  // are of memory that the processor reaches. Reads and writes of one file complete in any order,
  // so the same bytes are not written while anything else of them is under way. PERMISSION_DENIED
  // for what the file was not opened for.
  virtual void Read(uint64_t offset, Span into, Done done) = 0;
  virtual void Write(uint64_t offset, Span from, Done done) = 0;

  // How these bytes of the file would go, as far as that can be known beforehand. `memory`: where
  // they would lie; null: at an address that fits.
  virtual FilePass PassOf(const ByteRange& range, const std::byte* memory) const = 0;
  // Pieces that begin and end at multiples of this go the best way.
  virtual uint64_t grain() const = 0;
  // How many pieces should be under way, and of what size.
  virtual unsigned depth() const = 0;
  virtual uint64_t chunk_bytes() const = 0;

  // What is left to do once every Write has completed: see OpenFileRequest::commit. `done` runs
  // exactly once, on executor() or at once. Where `stop` is set in time nothing has changed, and it
  // fails (CANCELLED).
  using StopFlag = std::shared_ptr<const std::atomic<bool>>;
  virtual void Commit(const StopFlag& /*stop*/, UniqueFunction<void(Status)> done) {
    done(OkStatus());
  }

  // What does the work, for the receipt's evidence: "posix: io_uring, O_DIRECT".
  virtual std::string how() const = 0;

  // Where it is kept. Constant.
  virtual const DrivePlace& drive() const {
    static const DrivePlace unknown;
    return unknown;
  }

  virtual Executor& executor() = 0;
};

enum class FileUse { kRead, kWrite };

// One open file whose bytes a drive reads into memory of a GPU, or writes from there: spans are of
// such memory, and what is asked for is whole grains of the file at whole grains of memory.
class DirectFile : public StoreFile {
 public:
  // Makes this memory known to the drive's driver, until what is returned goes, which may block as
  // this does. FAILED_PRECONDITION with the library's reason.
  virtual Result<std::shared_ptr<void>> Attach(const RegionRef& memory) = 0;

  // Moves these bytes, which are going to be moved anyhow, and looks at which way they went.
  // Blocks; the memory is attached. What was seen, in words; FAILED_PRECONDITION
  // (COMPATIBILITY_MODE) where they did not go directly, or that cannot be seen.
  virtual Result<std::string> Prove(bool write, uint64_t offset, const Span& span) = 0;

  // Many pieces of one request, which it may move by fewer calls: as Read or Write of each. `done`
  // of one that has failed says so, and the others are moved anyway.
  struct Piece {
    uint64_t offset = 0;
    Span span;
    Done done;
  };
  virtual void MoveMany(bool write, std::vector<Piece> pieces) {
    for (Piece& piece : pieces) {
      if (write) {
        Write(piece.offset, std::move(piece.span), std::move(piece.done));
      } else {
        Read(piece.offset, std::move(piece.span), std::move(piece.done));
      }
    }
  }

  // Nobody wants any more what is under way: it may end early (CANCELLED), and what comes later
  // does.
  virtual void Stop() {}

  // Whether anything was seen to have gone another way since it was opened.
  virtual bool bounced() const = 0;
};

// A file's direct way to memory of GPUs, or why it has none.
struct DirectWay {
  std::shared_ptr<DirectFile> file;
  Status why_not;  // where there is none
};

// A descriptor that a client has opened; only its rights count.
struct OpenFileRequest {
  int fd = -1;
  // Another one of the same file, opened with O_DIRECT; -1: there is none, and the store does
  // without: opening the file again might take rights that its owner has and the daemon has not.
  int direct_fd = -1;
  std::shared_ptr<const void> keeps;  // the descriptors open; released without a wait
  std::string name;                   // for messages
  FileUse use = FileUse::kRead;
  bool read_back = false;  // what was written will be read, too
  // It is written, and reads as zeros up to its length, whatever room it has been given: what is
  // zero for long in the memory may stay a hole.
  bool is_new = false;
  uint64_t offset_bytes = 0;  // what will be read, as far as the caller knows
  std::optional<uint64_t> bytes;
  bool fewest_copies = false;  // rather than the fastest way: the request limits them
  // Instead of `fd`, `direct_fd` and `keeps`: sets them, on a thread that may wait for the file
  // system, and then others that ask for the same user and lane.
  std::function<Status(OpenFileRequest*)> open = nullptr;
  // Of what is written: makes it last, and what its name stands for. Likewise on a thread that may
  // wait; null: nothing is left to do. What is not committed leaves nothing behind once `keeps` has
  // gone, which a thread that may wait releases if `open` was set.
  std::function<Status(const std::atomic<bool>& stop)> commit = nullptr;
  std::string lane = {};  // apart from that user's others; empty: with them
  // Whose it is: reads and writes count against that user's limits and quotas, and what hangs
  // delays no other user.
  Uid owner;
  uint32_t gid = 0;
};

// Any thread; nothing blocks.
class Store {
 public:
  using Opened = UniqueFunction<void(Result<std::shared_ptr<StoreFile>>)>;

  virtual ~Store() = default;

  virtual StoreCapability Describe() const = 0;

  // `changed` runs, on a thread of the store, when Describe says something else than before; or at
  // once, by the caller, where that may have happened already. Set once, before the first file.
  virtual void OnChange(UniqueFunction<void()> /*changed*/) {}

  // Much of what its files move will lie in this host memory of the daemon, whose pages no other
  // process can change: the store may make it known to the kernel for as long as the region
  // lives. What it cannot make known it moves anyway.
  virtual void HoldsLong(const RegionRef& /*memory*/) {}

  // Whether its files go to and from memory of GPUs, by OpenDirect alone; else by Open, to and from
  // host memory.
  virtual bool IsDirect() const { return false; }

  // `done` runs exactly once, on a thread of the store's, when the file system has answered.
  // INVALID_ARGUMENT (BAD_HANDLE) for what is not a regular file or block device, a descriptor that
  // appends, or two of different files; PERMISSION_DENIED for one that was not opened for `use`;
  // RESOURCE_EXHAUSTED; FAILED_PRECONDITION (NOT_APPLICABLE) for a file that a user's program
  // serves (FUSE): it may never answer, and what has begun could not be ended.
  virtual void Open(OpenFileRequest request, Opened done) = 0;

  // Of a file that a store has opened already. `done` likewise; FAILED_PRECONDITION with the reason
  // why this file cannot go that way.
  using OpenedDirect = UniqueFunction<void(Result<std::shared_ptr<DirectFile>>)>;
  virtual void OpenDirect(OpenFileRequest request, OpenedDirect done);
};

}  // namespace onecopy
