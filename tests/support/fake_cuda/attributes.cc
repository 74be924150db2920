// What the fake driver tells of memory, and exports of it.
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "tests/support/fake_cuda/state.h"

using fake_cuda::Context;
using fake_cuda::Current;
using fake_cuda::FindRange;
using fake_cuda::kGranularity;
using fake_cuda::Range;
using fake_cuda::TheState;

extern "C" {

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
  if (range == nullptr) return CUDA_ERROR_INVALID_VALUE;
  if (attribute == CU_POINTER_ATTRIBUTE_BUFFER_ID) {
    *static_cast<unsigned long long*>(data) = range->id;
    return CUDA_SUCCESS;
  }
  if (attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL) return CUDA_ERROR_INVALID_VALUE;
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
      case CU_POINTER_ATTRIBUTE_BUFFER_ID:
        *static_cast<unsigned long long*>(data[i]) = range == nullptr ? 0 : range->id;
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

}  // extern "C"
