#include "client/lib/slab/own_gpu.h"

#include "onecopy/reasons.h"

namespace onecopy::client {
namespace {

CUDA_MEMCPY2D Plane(const StridedCopy& copy, uintptr_t gpu, std::byte* host, bool to_gpu) {
  CUDA_MEMCPY2D plane{};
  const uint64_t from_pitch = copy.from_stride;
  const uint64_t to_pitch = copy.to_stride;
  if (to_gpu) {
    plane.srcMemoryType = CU_MEMORYTYPE_HOST;
    plane.srcHost = host + copy.from;
    plane.dstMemoryType = CU_MEMORYTYPE_DEVICE;
    plane.dstDevice = gpu + copy.to;
  } else {
    plane.srcMemoryType = CU_MEMORYTYPE_DEVICE;
    plane.srcDevice = gpu + copy.from;
    plane.dstMemoryType = CU_MEMORYTYPE_HOST;
    plane.dstHost = host + copy.to;
  }
  plane.srcPitch = from_pitch;
  plane.dstPitch = to_pitch;
  plane.WidthInBytes = copy.bytes;
  plane.Height = copy.count;
  return plane;
}

}  // namespace

Result<std::shared_ptr<GpuCopies>> GpuCopies::Open(std::shared_ptr<const shim::CudaApi> api,
                                                   const shim::CudaOwn& own) {
  std::shared_ptr<GpuCopies> made(new GpuCopies(std::move(api)));
  made->context_ = own.context;
  if (own.context == nullptr) {
    const auto& primary = made->primary_.emplace(*made->api_, own.device);
    if (primary.outcome() != CUDA_SUCCESS) {
      return Status(
          Code::kFailedPrecondition, reasons::kDriverFailed,
          "opening the context of a GPU: " + shim::CudaErrorText(*made->api_, primary.outcome()));
    }
    made->context_ = primary.get();
  }
  return made;
}

GpuCopies::~GpuCopies() {
  if (context_ == nullptr) return;
  const shim::ScopedCudaContext scope(*api_, context_);
  const shim::NotCapturing relaxed(*api_);
  const MutexLock lock(mutex_);
  for (CUstream stream : idle_) api_->StreamDestroy(stream);
  if (pinned_ != nullptr) api_->MemHostUnregister(pinned_);
}

void GpuCopies::Pin(void* host, uint64_t bytes) {
  const shim::ScopedCudaContext scope(*api_, context_);
  const shim::NotCapturing relaxed(*api_);
  if (scope.outcome() != CUDA_SUCCESS) return;
  if (api_->MemHostRegister(host, bytes, CU_MEMHOSTREGISTER_PORTABLE) == CUDA_SUCCESS) {
    pinned_ = host;
  }
}

CUstream GpuCopies::TakeStream() {
  {
    const MutexLock lock(mutex_);
    if (!idle_.empty()) {
      CUstream stream = idle_.back();
      idle_.pop_back();
      return stream;
    }
  }
  CUstream stream = nullptr;
  return api_->StreamCreate(&stream, CU_STREAM_NON_BLOCKING) == CUDA_SUCCESS ? stream : nullptr;
}

void GpuCopies::GiveBack(CUstream stream) {
  const MutexLock lock(mutex_);
  idle_.push_back(stream);
}

bool GpuCopies::IsStill(uintptr_t gpu, uint64_t id) const {
  const shim::ScopedCudaContext scope(*api_, context_);
  return scope.outcome() == CUDA_SUCCESS && shim::IsStill(*api_, gpu, id);
}

bool GpuCopies::Copy(const StridedCopy& copy, uintptr_t gpu, std::byte* host, bool to_gpu) {
  const shim::ScopedCudaContext scope(*api_, context_);
  const shim::NotCapturing relaxed(*api_);
  if (scope.outcome() != CUDA_SUCCESS) return false;
  CUstream stream = TakeStream();
  if (stream == nullptr) return false;
  CUresult error = CUDA_SUCCESS;
  if (copy.count > 1) {
    const CUDA_MEMCPY2D plane = Plane(copy, gpu, host, to_gpu);
    error = api_->Memcpy2DAsync(&plane, stream);
  } else if (to_gpu) {
    error = api_->MemcpyHtoDAsync(gpu + copy.to, host + copy.from, copy.bytes, stream);
  } else {
    error = api_->MemcpyDtoHAsync(host + copy.to, gpu + copy.from, copy.bytes, stream);
  }
  const CUresult done = api_->StreamSynchronize(stream);
  GiveBack(stream);
  return error == CUDA_SUCCESS && done == CUDA_SUCCESS;
}

}  // namespace onecopy::client
