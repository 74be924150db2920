// A CUDA driver without a GPU, for tests: a shared library with the symbols of libcuda that onecopy
// uses. GPU memory is host memory, streams are threads. It is stricter than the real one: a copy
// must reach both ends without help (host memory pinned, a peer's memory opened), else it fails,
// and what is still open when a context closes is counted. Like the real one it copies to memory
// behind a legacy handle that was opened in another GPU's context through host memory, without a
// word and far slower.
//
// The environment says what it is, read at each call:
//   FAKE_CUDA_VERSION  of the driver, as cuda.h writes it; default 13000; negative: the error that
//                      asking for it gives
//   FAKE_CUDA_DEVICES  how many GPUs, read by cuInit; default 2
//   FAKE_CUDA_INIT     error that cuInit returns
//   FAKE_CUDA_MIG      set: every device is a MIG instance
//   FAKE_CUDA_NO_PEER  set: no GPU reaches another one
//   FAKE_CUDA_NO_DMABUF     set: no device has dma-buf
//   FAKE_CUDA_NO_PCIE_FLAG  set: dma-bufs are not exported with flags
//   FAKE_CUDA_ORDERING      of remote writes, as the attribute says it; default 200
//   FAKE_CUDA_NO_FLUSH      set: no device flushes remote writes
//   FAKE_CUDA_NO_POSIX_FD   set: no device exports descriptors of its memory
//   FAKE_CUDA_NO_KERNEL     set: no device takes the scatter kernel's image
//   FAKE_CUDA_STAGES        which other copies between GPUs go through host memory: "imported": all
//                           to memory behind a legacy handle; "all"
//
// The functions below are its own, to be found in the library by name.
#pragma once

#include <cuda.h>
#include <sys/types.h>

#include <cstddef>

extern "C" {

enum FakeCudaKind {
  FAKE_CUDA_LEGACY,         // cudaMalloc
  FAKE_CUDA_VMM,            // cuMemCreate with a POSIX descriptor
  FAKE_CUDA_VMM_NO_HANDLE,  // cuMemCreate without
  FAKE_CUDA_POOL,           // cudaMallocAsync
  FAKE_CUDA_MANAGED,        // cudaMallocManaged
  FAKE_CUDA_PINNED_HOST,    // cudaHostAlloc
};

// Memory of the calling process, as a user would have it. Never freed. With so many
// more `adjacent` allocations of `bytes` each behind it.
typedef CUdeviceptr FakeCudaAllocate(FakeCudaKind kind, int device, size_t bytes, int adjacent);

// Memory of another process, which that one has exported: `*handle` and `*fd` are what it would
// send (FAKE_CUDA_LEGACY fills the handle, FAKE_CUDA_VMM the descriptor, which is the caller's).
// Returns its bytes, as that process sees them.
typedef void* FakeCudaForeign(FakeCudaKind kind, int device, size_t bytes, CUipcMemHandle* handle,
                              int* fd);

// What begins the file that stands for a dma-buf: what cuMemGetHandleForAddressRange was asked.
struct FakeCudaDmaBuf {
  CUdeviceptr address;
  size_t bytes;
  unsigned long long flags;
};

// Bytes of copies between GPUs that went through host memory, since the beginning.
typedef size_t FakeCudaStagedBytes();

// Lets a stream capture a graph, or end that.
typedef void FakeCudaCapture(CUstream stream, bool capturing);
// Lets a stream take part in the capture of another one, as its wait for an event of that does.
typedef void FakeCudaFork(CUstream from, CUstream to);

// Calls of the calling thread that spoiled a capture of another one, as the real driver lets them;
// since the beginning.
typedef int FakeCudaSpoils();

// Calls that named a stream which had been destroyed, with which the real driver crashes.
typedef int FakeCudaDeadStreams();

// How much more cuMemCreate may have of all devices together; 0: no bound but that of a single one.
typedef void FakeCudaSetRoom(size_t bytes);

// Frees memory as torch frees that of an allocator of others, when the program ends: after Python.
typedef void FakeCudaFreeAtExit(void (*free)(void* memory, ssize_t bytes, int device, void* stream),
                                void* memory, ssize_t bytes);

// Whether the driver has ended, as it does before a process's last objects do.
typedef void FakeCudaEnd(bool ended);

// Things that were still open (streams, events, pins, IPC handles) when their context closed.
typedef int FakeCudaLeaks();
}
