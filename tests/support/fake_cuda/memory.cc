// The fake driver's memory: allocations, mappings, handles, attributes.
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

// What a legacy handle holds.
struct IpcHandle {
  char magic[8];
  pid_t pid;
  int fd;
  int device;
  size_t bytes;
};
constexpr char kMagic[8] = {'f', 'a', 'k', 'e', 'c', 'u', 'd', 'a'};

CUipcMemHandle MakeHandle(pid_t pid, const Range& range) {
  IpcHandle content{{}, pid, range.fd, range.device, range.bytes};
  std::memcpy(content.magic, kMagic, sizeof kMagic);
  CUipcMemHandle handle{};
  std::memcpy(handle.reserved, &content, sizeof content);
  return handle;
}

constexpr size_t kGuardBytes = 4096;

bool IsVmm(const Range& range) {
  return range.kind == FAKE_CUDA_VMM || range.kind == FAKE_CUDA_VMM_NO_HANDLE;
}

}  // namespace

extern "C" {

CUdeviceptr fakeCudaAllocate(FakeCudaKind kind, int device, size_t bytes, int adjacent) {
  const int count = adjacent != 0 ? 2 : 1;
  // With a page behind it that is no memory, so that nothing else is adjacent.
  const size_t total = bytes * static_cast<size_t>(count) + kGuardBytes;
  const int fd = fake_cuda::NewMemory(device, total);
  const auto address =
      reinterpret_cast<CUdeviceptr>(fake_cuda::MapMemory(fd, total, nullptr, true));
  const std::lock_guard lock(TheState().mutex);
  for (int i = 0; i < count; ++i) {
    TheState().ranges[address + bytes * static_cast<size_t>(i)] = {bytes, kind,  device,
                                                                   fd,    false, {device}};
  }
  return address;
}

void* fakeCudaForeign(FakeCudaKind kind, int device, size_t bytes, CUipcMemHandle* handle,
                      int* fd) {
  const int memory = fake_cuda::NewMemory(device, bytes);
  void* const view = fake_cuda::MapMemory(memory, bytes, nullptr, true);
  const Range range{bytes, kind, device, memory, true, {}};
  // As if a process with another number had made it; the descriptor is found here all the same.
  if (kind == FAKE_CUDA_LEGACY) *handle = MakeHandle(-1, range);
  if (kind == FAKE_CUDA_VMM) *fd = ::fcntl(memory, F_DUPFD_CLOEXEC, 0);
  return view;
}

CUresult cuMemAlloc_v2(CUdeviceptr* address, size_t bytes) {
  const Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (bytes == 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > fake_cuda::kDeviceBytes / 2) return CUDA_ERROR_OUT_OF_MEMORY;
  *address = fakeCudaAllocate(FAKE_CUDA_LEGACY, context->device, bytes, 0);
  return CUDA_SUCCESS;
}

CUresult cuMemFree_v2(CUdeviceptr address) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(TheState().mutex);
  const auto found = TheState().ranges.find(address);
  if (found == TheState().ranges.end() || found->second.kind != FAKE_CUDA_LEGACY) {
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
  *free = fake_cuda::kDeviceBytes / 2;
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

CUresult cuMemGetAllocationGranularity(size_t* granularity, const CUmemAllocationProp*,
                                       CUmemAllocationGranularity_flags) {
  *granularity = kGranularity;
  return CUDA_SUCCESS;
}

#ifndef FAKE_CUDA_WITHOUT_MEM_CREATE
CUresult cuMemCreate(CUmemGenericAllocationHandle* handle, size_t bytes,
                     const CUmemAllocationProp* properties, unsigned long long) {
  if (bytes % kGranularity != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > fake_cuda::kDeviceBytes / 2) return CUDA_ERROR_OUT_OF_MEMORY;
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
  TheState().reservations.erase(found);
  ::munmap(reinterpret_cast<void*>(address), bytes);
  return CUDA_SUCCESS;
}

CUresult cuMemMap(CUdeviceptr address, size_t bytes, size_t offset,
                  CUmemGenericAllocationHandle handle, unsigned long long) {
  const std::lock_guard lock(TheState().mutex);
  const auto found = TheState().allocations.find(handle);
  if (found == TheState().allocations.end() || offset != 0) return CUDA_ERROR_INVALID_VALUE;
  if (bytes > found->second.bytes || !TheState().reservations.contains(address)) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  Range range = found->second;
  range.bytes = bytes;
  range.fd = ::fcntl(range.fd, F_DUPFD_CLOEXEC, 0);
  fake_cuda::MapMemory(range.fd, bytes, reinterpret_cast<void*>(address), false);
  TheState().ranges[address] = range;
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr address, size_t bytes) {
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
  const std::lock_guard lock(TheState().mutex);
  const auto found = TheState().ranges.find(address);
  if (found == TheState().ranges.end() || found->second.bytes != bytes) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; i < count; ++i) {
    const int device = access[i].location.id;
    if (device >= TheState().devices) return CUDA_ERROR_INVALID_DEVICE;
    if (device != found->second.device && std::getenv("FAKE_CUDA_NO_PEER") != nullptr) {
      return CUDA_ERROR_INVALID_DEVICE;
    }
    found->second.reached_by.insert(device);
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

CUresult cuIpcGetMemHandle(CUipcMemHandle* handle, CUdeviceptr address) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(TheState().mutex);
  const Range* const range = FindRange(address, 1);
  if (range == nullptr || range->kind != FAKE_CUDA_LEGACY) return CUDA_ERROR_INVALID_VALUE;
  *handle = MakeHandle(::getpid(), *range);
  return CUDA_SUCCESS;
}

CUresult cuIpcOpenMemHandle_v2(CUdeviceptr* address, CUipcMemHandle handle, unsigned) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  IpcHandle content{};
  std::memcpy(&content, handle.reserved, sizeof content);
  if (std::memcmp(content.magic, kMagic, sizeof kMagic) != 0) return CUDA_ERROR_INVALID_HANDLE;
  if (content.pid == ::getpid()) return CUDA_ERROR_INVALID_CONTEXT;
  const std::string key(handle.reserved, sizeof handle.reserved);
  const std::lock_guard lock(TheState().mutex);
  if (context->ipc.contains(key)) return CUDA_ERROR_ALREADY_MAPPED;
  if (fake_cuda::DeviceOf(content.fd) != content.device) return CUDA_ERROR_MAP_FAILED;
  *address =
      reinterpret_cast<CUdeviceptr>(fake_cuda::MapMemory(content.fd, content.bytes, nullptr, true));
  TheState().ranges[*address] = {
      content.bytes, FAKE_CUDA_LEGACY, content.device, content.fd, true, {}};
  context->ipc[key] = *address;
  return CUDA_SUCCESS;
}

CUresult cuIpcCloseMemHandle(CUdeviceptr address) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(TheState().mutex);
  const auto opened = std::find_if(context->ipc.begin(), context->ipc.end(),
                                   [&](const auto& entry) { return entry.second == address; });
  if (opened == context->ipc.end()) return CUDA_ERROR_INVALID_VALUE;
  context->ipc.erase(opened);
  ::munmap(reinterpret_cast<void*>(address), TheState().ranges.at(address).bytes);
  TheState().ranges.erase(address);
  return CUDA_SUCCESS;
}

// Not a dma-buf, but a file of the same size that tells what was asked for.
CUresult cuMemGetHandleForAddressRange(void* out, CUdeviceptr address, size_t bytes,
                                       CUmemRangeHandleType type, unsigned long long flags) {
  constexpr size_t kPage = 4096;
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  if (type != CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD || address % kPage != 0 || bytes % kPage != 0) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (flags != 0 && std::getenv("FAKE_CUDA_NO_PCIE_FLAG") != nullptr) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const std::lock_guard lock(TheState().mutex);
  CUdeviceptr start = 0;
  const Range* const range = FindRange(address, 1, &start);
  const bool imported = range != nullptr && range->imported && range->kind == FAKE_CUDA_LEGACY;
  if (range == nullptr || imported || range->kind == FAKE_CUDA_PINNED_HOST ||
      range->kind == FAKE_CUDA_MANAGED) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (address + bytes > start + (range->bytes + kPage - 1) / kPage * kPage) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  const int fd = ::memfd_create("fakedmabuf", 0);
  const FakeCudaDmaBuf asked{address, bytes, flags};
  if (::ftruncate(fd, static_cast<off_t>(bytes)) != 0 ||
      ::pwrite(fd, &asked, sizeof asked, 0) != static_cast<ssize_t>(sizeof asked)) {
    ::close(fd);
    return CUDA_ERROR_UNKNOWN;
  }
  *static_cast<int*>(out) = fd;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttribute(void* data, CUpointer_attribute attribute, CUdeviceptr address) {
  const std::lock_guard lock(TheState().mutex);
  const Range* const range = FindRange(address, 1);
  if (range == nullptr || attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) {
    return CUDA_ERROR_INVALID_VALUE;
  }
  *static_cast<int*>(data) = range->device;
  return CUDA_SUCCESS;
}

CUresult cuPointerGetAttributes(unsigned count, CUpointer_attribute* attributes, void** data,
                                CUdeviceptr address) {
  if (Current() == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(TheState().mutex);
  const Range* const range = FindRange(address, 1);
  const bool host = range != nullptr && range->kind == FAKE_CUDA_PINNED_HOST;
  for (unsigned i = 0; i < count; ++i) {
    switch (attributes[i]) {
      case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
        *static_cast<unsigned*>(data[i]) =
            range == nullptr ? 0 : (host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE);
        break;
      case CU_POINTER_ATTRIBUTE_IS_MANAGED:
        *static_cast<unsigned*>(data[i]) = range != nullptr && range->kind == FAKE_CUDA_MANAGED;
        break;
      case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
        *static_cast<int*>(data[i]) = range == nullptr ? -2 : range->device;
        break;
      case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
        *static_cast<unsigned*>(data[i]) = range != nullptr && range->kind == FAKE_CUDA_LEGACY;
        break;
      case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
        *static_cast<unsigned long long*>(data[i]) =
            range != nullptr && range->kind == FAKE_CUDA_VMM
                ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR
                : 0;
        break;
      case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
        *static_cast<CUmemoryPool*>(data[i]) = range != nullptr && range->kind == FAKE_CUDA_POOL
                                                   ? reinterpret_cast<CUmemoryPool>(uintptr_t{1})
                                                   : nullptr;
        break;
      case CU_POINTER_ATTRIBUTE_CONTEXT:
        *static_cast<CUcontext*>(data[i]) = nullptr;
        break;
      default:
        return CUDA_ERROR_INVALID_VALUE;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister_v2(void* address, size_t bytes, unsigned flags) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
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

CUresult cuMemHostUnregister(void* address) {
  Context* const context = Current();
  if (context == nullptr) return CUDA_ERROR_INVALID_CONTEXT;
  const std::lock_guard lock(TheState().mutex);
  return context->pins.erase(address) > 0 ? CUDA_SUCCESS : CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
}

}  // extern "C"
