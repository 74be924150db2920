// The CUDA driver, opened at run time and never linked. Only the driver API: its library comes with
// the driver, so that what is called always fits what is loaded.
#pragma once

#include <cuda.h>

#include <memory>
#include <string>

#include "onecopy/result.h"

namespace onecopy::shim {

// Member of CudaApi, and the symbol behind it: always the newest version of a function that the
// oldest supported driver has, by its full name, since the header's own names follow the header.
#define ONECOPY_CUDA_FUNCTIONS(X)                                                 \
  X(DriverGetVersion, cuDriverGetVersion)                                         \
  X(Init, cuInit)                                                                 \
  X(GetErrorName, cuGetErrorName)                                                 \
  X(GetErrorString, cuGetErrorString)                                             \
  X(DeviceGetCount, cuDeviceGetCount)                                             \
  X(DeviceGet, cuDeviceGet)                                                       \
  X(DeviceGetName, cuDeviceGetName)                                               \
  X(DeviceGetUuid, cuDeviceGetUuid_v2)                                            \
  X(DeviceGetPhysicalUuid, cuDeviceGetUuid)                                       \
  X(DeviceGetPCIBusId, cuDeviceGetPCIBusId)                                       \
  X(DeviceTotalMem, cuDeviceTotalMem_v2)                                          \
  X(DeviceGetAttribute, cuDeviceGetAttribute)                                     \
  X(DeviceCanAccessPeer, cuDeviceCanAccessPeer)                                   \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                             \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)                        \
  X(DevicePrimaryCtxGetState, cuDevicePrimaryCtxGetState)                         \
  X(CtxSetCurrent, cuCtxSetCurrent)                                               \
  X(CtxPushCurrent, cuCtxPushCurrent_v2)                                          \
  X(CtxPopCurrent, cuCtxPopCurrent_v2)                                            \
  X(CtxSynchronize, cuCtxSynchronize)                                             \
  X(CtxEnablePeerAccess, cuCtxEnablePeerAccess)                                   \
  X(MemGetInfo, cuMemGetInfo_v2)                                                  \
  X(MemAlloc, cuMemAlloc_v2)                                                      \
  X(MemFree, cuMemFree_v2)                                                        \
  X(MemGetAddressRange, cuMemGetAddressRange_v2)                                  \
  X(MemGetAllocationGranularity, cuMemGetAllocationGranularity)                   \
  X(MemCreate, cuMemCreate)                                                       \
  X(MemRelease, cuMemRelease)                                                     \
  X(MemAddressReserve, cuMemAddressReserve)                                       \
  X(MemAddressFree, cuMemAddressFree)                                             \
  X(MemMap, cuMemMap)                                                             \
  X(MemUnmap, cuMemUnmap)                                                         \
  X(MemSetAccess, cuMemSetAccess)                                                 \
  X(MemRetainAllocationHandle, cuMemRetainAllocationHandle)                       \
  X(MemGetAllocationPropertiesFromHandle, cuMemGetAllocationPropertiesFromHandle) \
  X(MemExportToShareableHandle, cuMemExportToShareableHandle)                     \
  X(MemImportFromShareableHandle, cuMemImportFromShareableHandle)                 \
  X(IpcGetMemHandle, cuIpcGetMemHandle)                                           \
  X(IpcOpenMemHandle, cuIpcOpenMemHandle_v2)                                      \
  X(IpcCloseMemHandle, cuIpcCloseMemHandle)                                       \
  X(MemHostRegister, cuMemHostRegister_v2)                                        \
  X(MemHostUnregister, cuMemHostUnregister)                                       \
  X(PointerGetAttribute, cuPointerGetAttribute)                                   \
  X(PointerGetAttributes, cuPointerGetAttributes)                                 \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)                                        \
  X(MemcpyDtoHAsync, cuMemcpyDtoHAsync_v2)                                        \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2)                                        \
  X(MemcpyPeerAsync, cuMemcpyPeerAsync)                                           \
  X(Memcpy2DAsync, cuMemcpy2DAsync_v2)                                            \
  X(MemsetD8Async, cuMemsetD8Async)                                               \
  X(MemHostAlloc, cuMemHostAlloc)                                                 \
  X(MemFreeHost, cuMemFreeHost)                                                   \
  X(ModuleLoadData, cuModuleLoadData)                                             \
  X(ModuleUnload, cuModuleUnload)                                                 \
  X(ModuleGetFunction, cuModuleGetFunction)                                       \
  X(LaunchKernel, cuLaunchKernel)                                                 \
  X(StreamCreate, cuStreamCreate)                                                 \
  X(StreamDestroy, cuStreamDestroy_v2)                                            \
  X(StreamSynchronize, cuStreamSynchronize)                                       \
  X(EventCreate, cuEventCreate)                                                   \
  X(EventDestroy, cuEventDestroy_v2)                                              \
  X(EventRecord, cuEventRecord)                                                   \
  X(EventQuery, cuEventQuery)                                                     \
  X(EventElapsedTime, cuEventElapsedTime)

// The same for functions that a driver may lack, or that something stands in the way of: null then.
#define ONECOPY_CUDA_OPTIONAL_FUNCTIONS(X)                              \
  X(MemGetHandleForAddressRange, cuMemGetHandleForAddressRange)         \
  X(FlushGPUDirectRDMAWrites, cuFlushGPUDirectRDMAWrites)               \
  X(DeviceGetP2PAttribute, cuDeviceGetP2PAttribute)                     \
  X(ThreadExchangeStreamCaptureMode, cuThreadExchangeStreamCaptureMode) \
  X(StreamIsCapturing, cuStreamIsCapturing)                             \
  X(StreamGetCtx, cuStreamGetCtx)                                       \
  X(StreamWaitEvent, cuStreamWaitEvent)                                 \
  X(StreamWaitValue32, cuStreamWaitValue32_v2)                          \
  X(LaunchHostFunc, cuLaunchHostFunc)                                   \
  X(StreamGetId, cuStreamGetId)                                         \
  X(StreamGetCaptureInfo, cuStreamGetCaptureInfo_v3)                    \
  X(EventSynchronize, cuEventSynchronize)                               \
  X(MemAllocManaged, cuMemAllocManaged)                                 \
  X(MemAllocAsync, cuMemAllocAsync)                                     \
  X(MemFreeAsync, cuMemFreeAsync)

// The driver's functions. A plain value: a test takes a copy and wraps the calls that it watches.
struct CudaApi {
// NOLINTNEXTLINE(bugprone-macro-parentheses): a name that is declared takes none
#define ONECOPY_CUDA_MEMBER(member, symbol) decltype(&::symbol) member = nullptr;
  ONECOPY_CUDA_FUNCTIONS(ONECOPY_CUDA_MEMBER)
  ONECOPY_CUDA_OPTIONAL_FUNCTIONS(ONECOPY_CUDA_MEMBER)
#undef ONECOPY_CUDA_MEMBER

  // The version of CUDA that the driver supports, as cuda.h writes it: 13000 is 13.0.
  int driver_version = 0;
};

// The oldest driver that is supported: CUDA 12.4.
inline constexpr int kOldestCudaDriver = 12040;

// "13.0"
std::string CudaVersionText(int version);

// Opens and initialises the driver: `path`, or libcuda.so.1 where that is empty. Creates no
// context. Any thread; may take seconds. FAILED_PRECONDITION with the reason NO_DRIVER,
// DRIVER_TOO_OLD (also for a driver that lacks a function), NO_GPU, or DRIVER_FAILED with the
// driver's own error.
Result<std::shared_ptr<const CudaApi>> LoadCuda(const std::string& path = {});

// Makes the driver number GPUs as nvidia-smi does, in the order of their PCI addresses, which also
// decides what numbers in CUDA_VISIBLE_DEVICES mean. Changes the environment: to be called by a
// program's main function, before it starts threads and before the driver is first used.
void UsePciBusOrder();

// "CUDA_ERROR_OUT_OF_MEMORY (2): out of memory"
std::string CudaErrorText(const CudaApi& api, CUresult error);

// How a device is named to people and other processes.
struct CudaUuid {
  std::string text;  // as nvidia-smi prints it: "GPU-5f…", "MIG-…"
  bool mig = false;  // a slice of a GPU
};
Result<CudaUuid> ReadCudaUuid(const CudaApi& api, CUdevice device);

// Makes a context the calling thread's current one for a scope.
class ScopedCudaContext {
 public:
  ScopedCudaContext(const CudaApi& api, CUcontext context)
      : api_(api), outcome_(api.CtxPushCurrent(context)) {}
  ~ScopedCudaContext() {
    CUcontext popped = nullptr;
    if (outcome_ == CUDA_SUCCESS) api_.CtxPopCurrent(&popped);
  }
  ScopedCudaContext(const ScopedCudaContext&) = delete;
  ScopedCudaContext& operator=(const ScopedCudaContext&) = delete;

  CUresult outcome() const { return outcome_; }

 private:
  const CudaApi& api_;
  const CUresult outcome_;
};

// Holds a device's primary context open, which the CUDA runtime uses, too.
class PrimaryCudaContext {
 public:
  PrimaryCudaContext(const CudaApi& api, CUdevice device)
      : api_(api), device_(device), outcome_(api.DevicePrimaryCtxRetain(&context_, device)) {}
  ~PrimaryCudaContext() {
    if (outcome_ == CUDA_SUCCESS) api_.DevicePrimaryCtxRelease(device_);
  }
  PrimaryCudaContext(const PrimaryCudaContext&) = delete;
  PrimaryCudaContext& operator=(const PrimaryCudaContext&) = delete;

  CUresult outcome() const { return outcome_; }
  CUcontext get() const { return context_; }

 private:
  const CudaApi& api_;
  const CUdevice device_;
  CUcontext context_ = nullptr;
  const CUresult outcome_;
};

// A program may capture a graph on another thread, which calls of this one must not spoil: for as
// long as it lives, whatever such a capture allows no other thread to call is allowed to this one.
class NotCapturing {
 public:
  explicit NotCapturing(const CudaApi& api) : api_(api) { Exchange(); }
  ~NotCapturing() { Exchange(); }
  NotCapturing(const NotCapturing&) = delete;
  NotCapturing& operator=(const NotCapturing&) = delete;

 private:
  void Exchange() {
    if (api_.ThreadExchangeStreamCaptureMode != nullptr) {
      api_.ThreadExchangeStreamCaptureMode(&mode_);
    }
  }

  const CudaApi& api_;
  CUstreamCaptureMode mode_ = CU_STREAM_CAPTURE_MODE_RELAXED;
};

}  // namespace onecopy::shim
