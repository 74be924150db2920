// The fake driver's memory of cuMemCreate: allocations, addresses, mappings, descriptors.
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <iterator>
#include <memory>
#include <vector>

#include "tests/support/fake_cuda/state.h"

using fake_cuda::Context;
using fake_cuda::Current;
using fake_cuda::FindRange;
using fake_cuda::kGranularity;
using fake_cuda::Range;
using fake_cuda::TheState;

namespace {

bool IsVmm(const Range& range) {
  return range.kind == FAKE_CUDA_VMM || range.kind == FAKE_CUDA_VMM_NO_HANDLE;
}

// With the state's mutex held.
bool IsReserved(CUdeviceptr address, size_t bytes) {
  const auto after = TheState().reservations.upper_bound(address);
  if (after == TheState().reservations.begin()) return false;
  const auto& [start, reservation] = *std::prev(after);
  return address + bytes <= start + reservation.bytes;
}

// The same: whether a mapping begins there.
bool MappedWithin(CUdeviceptr address, size_t bytes) {
  const auto next = TheState().ranges.lower_bound(address);
  return next != TheState().ranges.end() && next->first < address + bytes;
}

}  // namespace

extern "C" {

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

#ifndef FAKE_CUDA_WITHOUT_MEM_CREATE
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) {
  if (bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  fake_cuda::NoteUnsafe();
  if (bytes > fake_cuda::kDeviceBytes / 2) return CUDA_ERROR_OUT_OF_MEMORY;
  const size_t room = TheState().room;
  if (room != 0 && TheState().used + bytes > room) return CUDA_ERROR_OUT_OF_MEMORY;
  const int device = properties->location.id;
  const bool exportable =
      properties->requestedHandleTypes == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  const int fd = fake_cuda::NewMemory(device, bytes);
  // Dirty, as memory is that another process has used.
  void* const view = fake_cuda::MapMemory(fd, bytes, nullptr, true);
  std::memset(view, 0xdd, std::min(bytes, kGranularity));
  ::munmap(view, bytes);
  const std::lock_guard lock(TheState().mutex);
  *handle = TheState().next_allocation++;
  TheState().allocations[*handle] = {
      bytes, exportable ? FAKE_CUDA_VMM : FAKE_CUDA_VMM_NO_HANDLE, device, fd, false, {}};
  TheState().allocations[*handle].use = std::make_shared<fake_cuda::Use>(bytes);
  return CUDA_SUCCESS;
}
#endif

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(TheState().mutex);
  const auto found = TheState().allocations.find(handle);
  if (found == TheState().allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  ::close(found->second.fd);
  TheState().allocations.erase(found);
  return CUDA_SUCCESS;
}

CUresult cuMemAddressReserve(CUdeviceptr* address, size_t bytes, size_t alignment, CUdeviceptr,
                             unsigned long long) {
  if (bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  void* const place = ::mmap(nullptr, bytes + alignment, PROT_NONE,
                             MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (place == MAP_FAILED) return CUDA_ERROR_OUT_OF_MEMORY;
  const auto raw = reinterpret_cast<CUdeviceptr>(place);
  const CUdeviceptr aligned = (raw + alignment - 1) / alignment * alignment;
  if (aligned > raw) ::munmap(place, aligned - raw);
  ::munmap(reinterpret_cast<void*>(aligned + bytes), raw + alignment - aligned);
  *address = aligned;
  const std::lock_guard lock(TheState().mutex);
  TheState().reservations[aligned] = {bytes};
  return CUDA_SUCCESS;
}

CUresult cuMemAddressFree(CUdeviceptr address, size_t bytes) {
  const std::lock_guard lock(TheState().mutex);
  const auto found = TheState().reservations.find(address);
  if (found == TheState().reservations.end() || found->second.bytes != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (MappedWithin(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  TheState().reservations.erase(found);
  ::munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  fake_cuda::NoteUnsafe();
  const std::lock_guard lock(TheState().mutex);
  const auto found = TheState().allocations.find(handle);
  if (found == TheState().allocations.end() || offset != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > found->second.bytes || !IsReserved(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  if (MappedWithin(address, bytes)) return CUDA_ERROR_INVALID_VALUE;
  Range range = found->second;
  range.bytes = bytes;
  range.fd = ::fcntl(range.fd, F_DUPFD_CLOEXEC, 0);
  fake_cuda::MapMemory(range.fd, bytes, reinterpret_cast<void*>(address), false);
  TheState().ranges[address] = range;
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
  fake_cuda::NoteUnsafe();
  const std::lock_guard lock(TheState().mutex);
  const auto found = TheState().ranges.find(address);
  if (found == TheState().ranges.end() || found->second.bytes != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  ::close(found->second.fd);
  TheState().ranges.erase(found);
  ::mmap(reinterpret_cast<void*>(address), bytes, PROT_NONE,
         MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr address, size_t bytes, const CUmemAccessDesc* access,
                        size_t count) {
  fake_cuda::NoteUnsafe();
  const std::lock_guard lock(TheState().mutex);
  // Whole mappings, one behind the other.
  std::vector<Range*> mapped;
  for (CUdeviceptr at = address; at < address + bytes; at += mapped.back()->bytes) {
    const auto found = TheState().ranges.find(at);
    if (found == TheState().ranges.end() || found->second.bytes > address + bytes - at) {
      return CUDA_ERROR_INVALID_VALUE;
    }
    mapped.push_back(&found->second);
  }
  for (size_t i = 0; i < count; ++i) {
    const int device = access[i].location.id;
    if (device >= TheState().devices) return CUDA_ERROR_INVALID_DEVICE;
    for (Range* const range : mapped) {
      if (device != range->device && std::getenv("FAKE_CUDA_NO_PEER") != nullptr) {
        return CUDA_ERROR_INVALID_DEVICE;
      }
      range->reached_by.insert(device);
    }
  }
  ::mprotect(reinterpret_cast<void*>(address), bytes, PROT_READ | PROT_WRITE);
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle* handle, void* address) {
  const std::lock_guard lock(TheState().mutex);
  const Range* const range = FindRange(reinterpret_cast<CUdeviceptr>(address), 1);
  if (range == nullptr || !IsVmm(*range)) return CUDA_ERROR_INVALID_VALUE;
  Range copy = *range;
  copy.fd = ::fcntl(range->fd, F_DUPFD_CLOEXEC, 0);
  *handle = TheState().next_allocation++;
  TheState().allocations[*handle] = copy;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp* properties,
                                                CUmemGenericAllocationHandle handle) {
  const std::lock_guard lock(TheState().mutex);
  const auto found = TheState().allocations.find(handle);
  if (found == TheState().allocations.end()) return CUDA_ERROR_INVALID_VALUE;
  *properties = {};
  properties->type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties->location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties->location.id = found->second.device;
  return CUDA_SUCCESS;
}

CUresult cuMemExportToShareableHandle(void* out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long) {
  const std::lock_guard lock(TheState().mutex);
  const auto found = TheState().allocations.find(handle);
  if (found == TheState().allocations.end() || found->second.kind != FAKE_CUDA_VMM ||
      type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *static_cast<int*>(out) = ::dup(found->second.fd);
  return CUDA_SUCCESS;
}

CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle* handle, void* os_handle,
                                        CUmemAllocationHandleType) {
  const int fd = static_cast<int>(reinterpret_cast<intptr_t>(os_handle));
  const int device = fake_cuda::DeviceOf(fd);
  if (device < 0) return CUDA_ERROR_INVALID_VALUE;
  struct stat facts {};
  ::fstat(fd, &facts);
  const std::lock_guard lock(TheState().mutex);
  *handle = TheState().next_allocation++;
  TheState().allocations[*handle] = {static_cast<size_t>(facts.st_size), FAKE_CUDA_VMM, device,
                                     ::fcntl(fd, F_DUPFD_CLOEXEC, 0),    true,          {}};
  return CUDA_SUCCESS;
}

}  // extern "C"
