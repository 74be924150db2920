// What a client asks of buffers and grants and what it is told about them.
#pragma once

#include "onecopy/language.h"  // first

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "onecopy/array_shape.h"
#include "onecopy/ids.h"
#include "onecopy/range.h"
#include "onecopy/transfer.h"

namespace onecopy {

// What a client's ordinary memory may be used for, by its own word.
enum class MemoryAccess { kRead, kReadWrite };

// A buffer is memory of its own, or a view: a name for a range of another buffer's memory, or for
// an array in it. Offsets in a view count from its beginning, in the order of its elements and
// without the gaps between them; nothing outside it can be reached by its name.
struct BufferInfo {
  std::string node;
  std::string name;
  std::string id;           // changes when a buffer is made again under the same name
  std::string memory;       // "host", "cuda", "dmabuf"
  std::string device;       // UUID of the GPU; empty for host memory, and for "process-gpu"
  uint64_t bytes = 0;       // of an array, those of its elements
  std::string owner;        // uid@node
  bool registered = false;  // a client's own memory, rather than allocated by the daemon
  WallTime create_time;
  uint32_t transfers = 0;  // that use it now
  // Whether what arrives is kept for its owner until a watch has dealt with it.
  bool keep_arrivals = false;
  // Of a client's memory, how the daemon has it: "memfd" (which cannot shrink), "shm" (a memory
  // file that may: sealing it with F_SEAL_SHRINK would rule that out), "process" (copied by the
  // client's own threads, through a slab), "process-gpu" (likewise, from a GPU), "cuda-ipc",
  // "cuda-vmm", "dmabuf". Empty: the daemon's own.
  std::string form;
  std::string view_of;        // of a view: the id of the buffer that has the memory; else empty
  uint64_t offset_bytes = 0;  // where in that memory it begins
  std::optional<ArrayShape> array = {};  // of a view that was made of one
};

struct CreateBufferRequest {
  std::string name = {};        // [A-Za-z0-9][A-Za-z0-9._-]{0,62}
  uint64_t bytes = 0;           // at least 1
  std::string memory = {};      // "host", "cuda:N" (nvidia-smi's order), a PCI address, a UUID
  std::string request_id = {};  // as in TransferRequest
  bool validate_only = false;   // checks only: nothing is allocated, and what comes back has no id
  std::string node = {};        // on which it is made; empty: the one that is asked
  // Whether arrivals without a watcher are kept, within [limits]; see Client::WatchArrivals.
  bool keep_arrivals = false;
};

// A view that is to be made.
struct ViewRequest {
  std::string name = {};  // as in CreateBufferRequest; empty: the daemon chooses one
  // What it is a view of: a range of a buffer of the node that the client is attached to. Of an
  // array, `offset_bytes` is where its first element lies, and `bytes` is not read.
  Endpoint range = {};
  std::optional<ArrayShape> array = {};
  bool keep_arrivals = false;  // as in CreateBufferRequest
};

// How many blocks can be summed at once.
inline constexpr uint64_t kMaxSummedBlocks = 1024;

// What to sum: a range, or, where `block_bytes` is not 0, each block of that length in it; the last
// one may be shorter.
struct SumRequest {
  Endpoint range = {};
  uint64_t block_bytes = 0;
};

// Checksum of a range, or of its blocks, as it was when it was read.
struct BufferSum {
  std::string algorithm;
  std::string value;  // in hexadecimal; empty where blocks were asked for
  uint64_t bytes = 0;
  std::vector<std::string> blocks = {};  // one for each, likewise in hexadecimal
  // The whole's xxh3-128-tree, as receipts have it (docs/decisions/hash-tree.md); empty where
  // blocks were asked for.
  std::string tree = {};
};

// The right of another owner on a range of a buffer, until a time.
struct GrantInfo {
  GrantId id;
  std::string buffer;
  ByteRange range;
  std::string to;  // uid@node
  bool read = false;
  bool write = false;
  std::optional<WallTime> expire_time;  // absent: until it or the buffer is deleted
  std::string owner;                    // of the buffer, uid@node
  std::string node;                     // that has the buffer
};

struct CreateGrantRequest {
  Endpoint range = {};  // of a buffer of the node that the client is attached to
  std::string to = {};  // "1000@west", or "1000" for a uid of this node
  bool read = false;
  bool write = false;
  std::optional<std::chrono::milliseconds> lifetime = {};  // absent: no end
};

// Memory of this process that is to be a buffer; see Client::RegisterAll.
struct MemoryToRegister {
  std::string name = {};  // empty: the daemon chooses one
  void* pointer = nullptr;
  uint64_t bytes = 0;
  MemoryAccess access = MemoryAccess::kReadWrite;  // of ordinary memory
  bool cuda = false;                               // `pointer` is one of a GPU's
};

// What a process's CUDA driver allocated in one piece, or mapped (cuMemMap) in one or several.
struct CudaAllocation {
  uintptr_t start = 0;
  uint64_t bytes = 0;
  // No other allocation of the process ever has it, also at the same address. Of several: made of
  // all their numbers.
  uint64_t id = 0;

  friend bool operator==(const CudaAllocation&, const CudaAllocation&) = default;
};

}  // namespace onecopy
