#include "client/lib/memory/gpu_memory.h"

#include "client/lib/memory/register_cuda.h"
#include "onecopy/v1/buffer.pb.h"

namespace onecopy::client {

Result<BufferInfo> GpuMemory::RegisterAs(Session& session, v1::RegisterBufferRequest request) {
  ONECOPY_ASSIGN_OR_RETURN(const uint64_t handle, session.attach().PassDescriptor(fd_.get()));
  AddCudaVmm(handle, uuid_, 0, bytes_, request);
  return RegisterIn(session, std::move(request));
}

Result<BufferInfo> ManagedMemory::RegisterAs(Session& session, v1::RegisterBufferRequest request) {
  if (request.request_id() != asked_) {
    ONECOPY_ASSIGN_OR_RETURN(shim::CudaOwn own, shim::FindOwnCuda(gpu_->api(), address_, bytes_));
    // The primary one, which the session holds open by itself then: it may outlive the memory's.
    own.device = gpu_->device();
    own.context = nullptr;
    ONECOPY_ASSIGN_OR_RETURN(region_,
                             session.own_memory().AddCuda(gpu_->api_ref(), address_, bytes_, own));
    asked_ = request.request_id();
  }
  request.mutable_process()->set_gpu(true);
  return RegisterOwnIn(session, region_, std::move(request));
}

}  // namespace onecopy::client
