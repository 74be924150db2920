// What another process needs to use GPU memory of this one.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "onecopy/buffer.h"
#include "onecopy/result.h"
#include "transport/os/base/unique_fd.h"
#include "transport/shim/cuda.h"

namespace onecopy::shim {

// A range of GPU memory as network devices reach it.
struct CudaDmaBuf {
  os::UniqueFd fd;
  uint64_t offset = 0;  // of the range's first byte in the descriptor's bytes
};

// Exports whole pages of the host around the `bytes` bytes at `pointer`, which lie on `device`,
// with a context of that device current. FAILED_PRECONDITION (GPU_NOT_PINNABLE) where the driver,
// the device or the memory allows none.
Result<CudaDmaBuf> ExportDmaBuf(const CudaApi& api, CUdevice device, CUdeviceptr pointer,
                                uint64_t bytes);

// A range of GPU memory in a form that the daemon can import.
struct CudaExport {
  std::string form;               // "cuda-ipc" or "cuda-vmm", as in ImportRequest
  std::string device_uuid;        // "GPU-5f…", of the GPU on which the memory lies
  std::string handle;             // "cuda-ipc": the 64 bytes of cuIpcGetMemHandle
  os::UniqueFd fd;                // "cuda-vmm": the allocation
  uint64_t offset = 0;            // of the range inside the allocation, in bytes
  uint64_t allocation_bytes = 0;  // of the whole allocation

  // "cuda-vmm": an allocation that the range goes on into.
  struct Allocation {
    os::UniqueFd fd;
    uint64_t bytes = 0;
  };
  std::vector<Allocation> more;  // behind the first one, in their order

  // "cuda-ipc": only this process can export the memory to network devices, so it does where that
  // is wanted; or why not.
  CudaDmaBuf dmabuf;
  std::string dmabuf_refusal;
};

// The allocation that the `bytes` bytes at `device_pointer` of the calling process lie in, where
// another process can map it; or those of cuMemCreate that are mapped one right behind the other,
// as one. Any thread; as ExportCuda.
Result<CudaAllocation> FindCudaAllocation(const CudaApi& api, uintptr_t device_pointer,
                                          uint64_t bytes = 1);

// Finds out what the `bytes` bytes at `device_pointer` of the calling process are, and exports
// them; allocations of cuMemCreate that are mapped one right behind the other (so torch's
// expandable segments are) are one memory. It must stay allocated while another process uses it.
// Any thread, with or without a current context, which stays as it was.
//
// FAILED_PRECONDITION (NOT_SHAREABLE) for memory that no other process can map, with its kind and
// what to use instead; OUT_OF_RANGE (RANGE_OUT_OF_BUFFER) for a range that ends beyond its
// allocation; INVALID_ARGUMENT (BAD_SIZE) for no bytes; as LoadCuda without a driver.
Result<CudaExport> ExportCuda(uintptr_t device_pointer, uint64_t bytes);
enum class DmaBufs { kExport, kLeave };  // where network devices are to reach it
Result<CudaExport> ExportCuda(const CudaApi& api, uintptr_t device_pointer, uint64_t bytes,
                              DmaBufs dma_bufs = DmaBufs::kExport);

// Where GPU memory lies that this process alone reaches: of a pool (cudaMallocAsync), managed, of
// cuMemCreate without a descriptor, of a MIG instance, or any other.
struct CudaOwn {
  CUdevice device = 0;
  CUcontext context = nullptr;  // to copy it in; null: the device's primary one
  uint64_t id = 0;              // as CudaAllocation's; 0: the driver has none
};

// FAILED_PRECONDITION (NOT_SHAREABLE) for what is not memory of a GPU, or goes over several
// allocations; OUT_OF_RANGE, INVALID_ARGUMENT as ExportCuda. Any thread, likewise.
Result<CudaOwn> FindOwnCuda(const CudaApi& api, uintptr_t device_pointer, uint64_t bytes);

// Whether `device_pointer` still lies in the allocation of that number.
bool IsStill(const CudaApi& api, uintptr_t device_pointer, uint64_t id);

// The same for a dma-buf alone, which memory of a pool (cudaMallocAsync) has too.
// FAILED_PRECONDITION (NOT_SHAREABLE) for what is not memory of a GPU; as ExportDmaBuf.
Result<CudaDmaBuf> ExportCudaDmaBuf(uintptr_t device_pointer, uint64_t bytes);
Result<CudaDmaBuf> ExportCudaDmaBuf(const CudaApi& api, uintptr_t device_pointer, uint64_t bytes);

}  // namespace onecopy::shim
