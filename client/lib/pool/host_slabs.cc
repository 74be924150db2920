#include "client/lib/pool/host_slabs.h"

#include <utility>

#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::client {

Result<SlabSource::Slab> HostSlabs::Make(uint64_t bytes) {
  MutexLock lock(mutex_);
  const std::string name = names_.Next();
  lock.Unlock();
  ONECOPY_ASSIGN_OR_RETURN(HostBuffer buffer, client_.CreateHostBuffer(name, bytes));
  const Slab slab{buffer.data(), buffer.bytes()};
  if (gpu_ != nullptr) ONECOPY_RETURN_IF_ERROR(Pin(slab));
  lock.Lock();
  buffers_.emplace(slab.data, std::move(buffer));
  return slab;
}

Status HostSlabs::Pin(const Slab& slab) const {
  const GpuDevice::Scope scope(*gpu_);
  ONECOPY_RETURN_IF_ERROR(scope.status());
  const CUresult error =
      gpu_->api().MemHostRegister(slab.data, slab.bytes, CU_MEMHOSTREGISTER_PORTABLE);
  if (error == CUDA_SUCCESS) return OkStatus();
  const std::string what = "the driver cannot pin " + FormatBytes(slab.bytes) +
                           " of host memory: " + shim::CudaErrorText(gpu_->api(), error);
  if (error == CUDA_ERROR_OUT_OF_MEMORY) {
    return {Code::kResourceExhausted, reasons::kNoMemory, what,
            "free memory, use smaller slabs, or make the pool without `pinned`"};
  }
  return {Code::kFailedPrecondition, reasons::kHostNotPinnable, what,
          "make the pool without `pinned`: copies to and from GPUs are slower then"};
}

Status HostSlabs::Free(const Slab& slab) {
  MutexLock lock(mutex_);
  auto buffer = buffers_.extract(slab.data);
  lock.Unlock();
  if (buffer.empty()) return OkStatus();
  // First: the driver unpins what still is mapped. A daemon that has gone took the buffer along,
  // which is all that there is to do then.
  static_cast<void>(buffer.mapped().Close());
  if (gpu_ != nullptr) {
    const GpuDevice::Scope scope(*gpu_);
    if (scope.status().ok()) gpu_->api().MemHostUnregister(slab.data);
  }
  return OkStatus();
}

std::optional<Endpoint> HostSlabs::EndpointOf(const std::byte* slab, uint64_t offset_bytes,
                                              uint64_t bytes) const {
  const MutexLock lock(mutex_);
  const auto found = buffers_.find(slab);
  if (found == buffers_.end()) return {};
  return found->second.endpoint(offset_bytes, bytes);
}

std::vector<PoolSlab> HostSlabs::List() const {
  const MutexLock lock(mutex_);
  std::vector<PoolSlab> list;
  for (const auto& [data, buffer] : buffers_) list.push_back({buffer.data(), buffer.info()});
  return list;
}

}  // namespace onecopy::client
