// GPU memory as users' programs allocate it, with the CUDA runtime and the driver.
#pragma once

#include <cuda_runtime.h>

#include <cstdint>
#include <cstdlib>
#include <string>

#include "tests/gpu/exporter_protocol.h"
#include "transport/shim/cuda.h"

namespace onecopy::testing {

struct Failure {
  std::string what;
};

inline void Check(cudaError_t error, const char* what) {
  if (error != cudaSuccess) {
    throw Failure{std::string(what) + ": " + cudaGetErrorName(error) + " (" +
                  std::to_string(static_cast<int>(error)) + ")"};
  }
}

inline const shim::CudaApi& Driver() {
  static const auto api = shim::LoadCuda();
  if (!api.ok()) throw Failure{api.status().ToString()};
  return **api;
}

inline void Check(CUresult error, const char* what) {
  if (error != CUDA_SUCCESS) {
    throw Failure{std::string(what) + ": " + shim::CudaErrorText(Driver(), error)};
  }
}

#define CHECK_CUDA(call) Check(call, #call)

// `count` allocations of `bytes` (rounded up) each, mapped side by side, `lead` of them further
// inside a reservation.
inline unsigned char* AllocateVmm(int device, uint64_t bytes, unsigned count, unsigned lead,
                                  CUmemAllocationHandleType handle_type) {
  const shim::CudaApi& api = Driver();
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = device;
  properties.requestedHandleTypes = handle_type;
  size_t granularity = 0;
  CHECK_CUDA(
      api.MemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  const uint64_t each = (bytes + granularity - 1) / granularity * granularity;
  CUdeviceptr start = 0;
  CHECK_CUDA(api.MemAddressReserve(&start, each * (count + 2 * lead), granularity, 0, 0));
  start += each * lead;
  for (unsigned i = 0; i < count; ++i) {
    CUmemGenericAllocationHandle handle = 0;
    CHECK_CUDA(api.MemCreate(&handle, each, &properties, 0));
    CHECK_CUDA(api.MemMap(start + i * each, each, 0, handle, 0));
    CHECK_CUDA(api.MemRelease(handle));
  }
  CUmemAccessDesc access{};
  access.location = properties.location;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  CHECK_CUDA(api.MemSetAccess(start, each * count, &access, 1));
  return reinterpret_cast<unsigned char*>(start);
}

inline unsigned char* AllocateFromPool(int device, uint64_t bytes) {
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.handleTypes = cudaMemHandleTypePosixFileDescriptor;
  properties.location.type = cudaMemLocationTypeDevice;
  properties.location.id = device;
  cudaMemPool_t pool = nullptr;
  void* data = nullptr;
  CHECK_CUDA(cudaMemPoolCreate(&pool, &properties));
  CHECK_CUDA(cudaMallocFromPoolAsync(&data, bytes, pool, nullptr));
  CHECK_CUDA(cudaStreamSynchronize(nullptr));
  return static_cast<unsigned char*>(data);
}

inline unsigned char* Allocate(MemoryKind kind, int device, uint64_t bytes) {
  CHECK_CUDA(cudaSetDevice(device));
  CHECK_CUDA(cudaFree(nullptr));  // opens the context
  void* data = nullptr;
  switch (kind) {
    case MemoryKind::kMalloc:
      CHECK_CUDA(cudaMalloc(&data, bytes));
      break;
    case MemoryKind::kMallocAsync:
      CHECK_CUDA(cudaMallocAsync(&data, bytes, nullptr));
      CHECK_CUDA(cudaStreamSynchronize(nullptr));
      break;
    case MemoryKind::kPool:
      return AllocateFromPool(device, bytes);
    case MemoryKind::kMallocManaged:
      CHECK_CUDA(cudaMallocManaged(&data, bytes));
      break;
    case MemoryKind::kHostAlloc:
      CHECK_CUDA(cudaHostAlloc(&data, bytes, cudaHostAllocDefault));
      break;
    case MemoryKind::kHeap:
      data = std::malloc(bytes);
      break;
    case MemoryKind::kVmm:
      return AllocateVmm(device, bytes, 1, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    case MemoryKind::kVmmInside:
      return AllocateVmm(device, bytes, 1, 3, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    case MemoryKind::kVmmTwo:
      return AllocateVmm(device, bytes, 2, 0, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR);
    case MemoryKind::kVmmNoHandle:
      return AllocateVmm(device, bytes, 1, 0, CU_MEM_HANDLE_TYPE_NONE);
  }
  return static_cast<unsigned char*>(data);
}

}  // namespace onecopy::testing
