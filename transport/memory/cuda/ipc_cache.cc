#include "transport/memory/cuda/ipc_cache.h"

#include <cstring>

#include "onecopy/reasons.h"

namespace onecopy::cuda {
namespace {

constexpr char kRemedy[] = "pass what cuIpcGetMemHandle returns for memory that is still allocated";

Status BadIpcHandle(std::string why) {
  return {Code::kInvalidArgument, reasons::kBadHandle, std::move(why), kRemedy};
}

// Where an opened allocation ends, and that it lies on the GPU that it is said to lie on. With the
// GPU's context current.
Result<IpcCache::Opened> Inspect(Gpu& gpu, CUdeviceptr address) {
  CUdeviceptr start = 0;
  size_t bytes = 0;
  CUresult error = gpu.api().MemGetAddressRange(&start, &bytes, address);
  int ordinal = -1;
  if (error == CUDA_SUCCESS) {
    error = gpu.api().PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, address);
  }
  if (error != CUDA_SUCCESS) {
    return gpu.Failure(error, "asking for the attributes of an opened handle",
                       Code::kInvalidArgument, reasons::kBadHandle, kRemedy);
  }
  if (ordinal != gpu.info().driver_ordinal) {
    return BadIpcHandle("the memory behind the handle does not lie on " + gpu.ToString() +
                        " but on the driver's device " + std::to_string(ordinal));
  }
  return IpcCache::Opened{address, start + bytes - address};
}

}  // namespace

Result<IpcCache::Opened> IpcCache::Open(Gpu& gpu, const std::string& handle) {
  CUipcMemHandle native{};
  if (handle.size() != sizeof native.reserved) {
    return BadIpcHandle("an IPC handle has " + std::to_string(sizeof native.reserved) +
                        " bytes, not " + std::to_string(handle.size()));
  }
  const MutexLock lock(mutex_);
  if (const auto entry = entries_.find(handle); entry != entries_.end()) {
    ++entry->second.users;
    return entry->second.opened;
  }
  std::memcpy(native.reserved, handle.data(), handle.size());
  const shim::ScopedCudaContext scope(gpu.api(), gpu.context());
  CUdeviceptr address = 0;
  CUresult error = scope.outcome();
  if (error == CUDA_SUCCESS) {
    error = gpu.api().IpcOpenMemHandle(&address, native, CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS);
  }
  if (error != CUDA_SUCCESS) {
    return gpu.Failure(error, "cuIpcOpenMemHandle on " + gpu.ToString(), Code::kInvalidArgument,
                       reasons::kBadHandle, kRemedy);
  }
  Result<Opened> opened = Inspect(gpu, address);
  if (!opened.ok()) {
    gpu.api().IpcCloseMemHandle(address);
    return opened;
  }
  entries_[handle] = Entry{*opened, 1};
  return opened;
}

void IpcCache::Close(Gpu& gpu, const std::string& handle) {
  const MutexLock lock(mutex_);
  const auto entry = entries_.find(handle);
  if (entry == entries_.end() || --entry->second.users > 0) return;
  const shim::ScopedCudaContext scope(gpu.api(), gpu.context());
  gpu.api().IpcCloseMemHandle(entry->second.opened.address);
  entries_.erase(entry);
}

}  // namespace onecopy::cuda
