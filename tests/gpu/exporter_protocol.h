// What a test and the exporter process (exporter.cu) say to each other over a stream socket.
#pragma once

#include <cstdint>

namespace onecopy::testing {

// Kinds of memory, as users of CUDA have it.
enum class MemoryKind : uint32_t {
  kMalloc,         // cudaMalloc
  kVmm,            // cuMemCreate with a descriptor handle, alone in its reservation
  kVmmInside,      // the same, in the middle of a larger reservation
  kVmmTwo,         // two such allocations, mapped side by side
  kVmmNoHandle,    // cuMemCreate without an exportable handle
  kMallocAsync,    // cudaMallocAsync, default pool
  kPool,           // cudaMallocFromPoolAsync, of a pool with descriptor handles
  kMallocManaged,  // cudaMallocManaged
  kHostAlloc,      // cudaHostAlloc
  kHeap,           // malloc
};

struct ExporterRequest {
  enum class What : uint32_t {
    kAllocate,  // followed by `bytes` bytes, which are put at `offset`; exports that piece
    kRead,      // the piece of allocation `id`; its bytes follow the reply
    kFlip,      // a kernel inverts every bit of the piece
    kFree,
    kDmaBuf,  // exports the piece as a dma-buf
  };
  What what = What::kAllocate;
  MemoryKind kind = MemoryKind::kMalloc;
  uint32_t id = 0;
  int32_t device = 0;  // in the order of PCI addresses
  uint64_t allocation_bytes = 0;
  uint64_t offset = 0;
  uint64_t bytes = 0;
  uint32_t on_new_thread = 0;  // export from a thread that has not used CUDA
};

// A descriptor comes beside it where the form is "cuda-vmm", and for a dma-buf; `offset` is then
// the piece's in it.
struct ExporterReply {
  int32_t code = 0;  // of the export's Status, or -1: the exporter itself failed, see `message`
  uint32_t id = 0;   // of the allocation
  char reason[64] = {};
  char message[512] = {};
  char remedy[256] = {};
  char form[16] = {};
  char device_uuid[64] = {};
  char handle[64] = {};
  uint64_t offset = 0;
  uint64_t allocation_bytes = 0;
};

}  // namespace onecopy::testing
