// The fake driver's plain memory: allocations, and host memory that is pinned.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/support/fake_cuda/state.h"

using fake_cuda::Context;
using fake_cuda::Current;
using fake_cuda::FindRange;
using fake_cuda::kGranularity;
using fake_cuda::Range;
using fake_cuda::TheState;

namespace fake_cuda {

const Range* FindRange(CUdeviceptr address, size_t bytes, CUdeviceptr* start) {
  auto after = TheState().ranges.upper_bound(address);
  if (after == TheState().ranges.begin()) return nullptr;
  const auto& [first, range] = *std::prev(after);
  const size_t offset = address - first;
  if (offset >= range.bytes || bytes > range.bytes - offset) return nullptr;
  if (start != nullptr) *start = first;
  return &range;
}

int NewMemory(int device, size_t bytes) {
  const int fd = ::memfd_create(("fakecuda" + std::to_string(device)).c_str(), MFD_CLOEXEC);
  return ::ftruncate(fd, static_cast<off_t>(bytes)) == 0 ? fd : -1;
}

int DeviceOf(int fd) {
  char name[256] = {};
  const std::string link = "/proc/self/fd/" + std::to_string(fd);
  if (::readlink(link.c_str(), name, sizeof name - 1) < 0) return -1;
  constexpr char kPrefix[] = "/memfd:fakecuda";
  if (std::strncmp(name, kPrefix, sizeof kPrefix - 1) != 0) return -1;
  return std::atoi(name + sizeof kPrefix - 1);
}

void* MapMemory(int fd, size_t bytes, void* where, bool reachable) {
  return ::mmap(where, bytes, reachable ? PROT_READ | PROT_WRITE : PROT_NONE,
                MAP_SHARED | (where == nullptr ? 0 : MAP_FIXED), fd, 0);
}

}  // namespace fake_cuda

namespace {

constexpr size_t kGuardBytes = 4096;

}  // namespace

extern "C" {

CUdeviceptr fakeCudaAllocate(FakeCudaKind kind, int device, size_t bytes, int adjacent) {
  // With a page behind the last one that is no memory, so that nothing else is adjacent.
  const auto count = static_cast<size_t>(adjacent) + 1;
  const int first = fake_cuda::NewMemory(device, bytes * count + kGuardBytes);
  const auto address = reinterpret_cast<CUdeviceptr>(
      fake_cuda::MapMemory(first, bytes * count + kGuardBytes, nullptr, true));
  const std::lock_guard lock(TheState().mutex);
  for (size_t i = 0; i < count; ++i) {
    const CUdeviceptr here = address + bytes * i;
    int fd = first;
    if (i > 0) {
      fd = fake_cuda::NewMemory(device, bytes);
      fake_cuda::MapMemory(fd, bytes, reinterpret_cast<void*>(here), true);
    }
    TheState().ranges[here] = {bytes, kind, device, fd, false, {device}};
  }
  return address;
}
CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  const Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > fake_cuda::kDeviceBytes / 2) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = fakeCudaAllocate(FAKE_CUDA_LEGACY, context->device, bytes, 0);
  return CUDA_SUCCESS;
}

CUresult cuMemAllocManaged(CUdeviceptr* address, size_t bytes, unsigned flags) {
  const Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes == 0 || flags != CU_MEM_ATTACH_GLOBAL) return CUDA_ERROR_INVALID_VALUE;
  fake_cuda::NoteUnsafe();
  *address = fakeCudaAllocate(FAKE_CUDA_MANAGED, context->device, bytes, 0);
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  fake_cuda::NoteUnsafe();
  const std::lock_guard lock(TheState().mutex);
  const auto found = TheState().ranges.find(address);
  if (found == TheState().ranges.end() ||
      (found->second.kind != FAKE_CUDA_LEGACY && found->second.kind != FAKE_CUDA_MANAGED)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ::munmap(reinterpret_cast<void*>(address), found->second.bytes + kGuardBytes);
  ::close(found->second.fd);
  TheState().ranges.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemGetInfo_v2(size_t* free, size_t* total) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  *total = fake_cuda::kDeviceBytes;
  const size_t room = TheState().room;
  *free = room == 0 ? fake_cuda::kDeviceBytes / 2 : room - std::min<size_t>(room, TheState().used);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange_v2(CUdeviceptr* start, size_t* bytes, CUdeviceptr address) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(TheState().mutex);
  const Range* const range = FindRange(address, 1, start);
  if (range == nullptr) return CUDA_ERROR_NOT_FOUND;
  *bytes = range->bytes;
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  fake_cuda::NoteUnsafe();
  // Mapped or not: addresses are one on all platforms that this driver plays.
  if ((flags | CU_MEMHOSTREGISTER_DEVICEMAP) !=
      (CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(TheState().mutex);
  for (const auto& [device, other] : TheState().contexts) {
    for (const auto& [pinned, length] : other.pins) {
      const auto first = reinterpret_cast<uintptr_t>(pinned);
      const auto begin = reinterpret_cast<uintptr_t>(address);
      if (begin < first + length && first < begin + bytes) {
        return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
      }
    }
  }
  context->pins[address] = bytes;
  return CUDA_SUCCESS;
}

void fakeCudaFreeAtExit(void (*free)(void*, ssize_t, int, void*), void* memory, ssize_t bytes) {
  struct Last {
    void (*free)(void*, ssize_t, int, void*);
    void* memory;
    ssize_t bytes;
    ~Last() { free(memory, bytes, 0, nullptr); }
  };
  static const Last last{free, memory, bytes};
}

CUresult cuMemHostUnregister(void* address) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(TheState().mutex);
  return context->pins.erase(address) > 0 ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

}  // extern "C"
