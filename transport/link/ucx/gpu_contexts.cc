#include "transport/link/ucx/gpu_contexts.h"

#include "onecopy/reasons.h"

namespace onecopy::ucx {

GpuContexts::~GpuContexts() {
  for (const auto& [ordinal, context] : open_) {
    CUdevice device = 0;
    if (api_->DeviceGet(&device, ordinal) == CUDA_SUCCESS) api_->DevicePrimaryCtxRelease(device);
  }
}

Status GpuContexts::UseFor(const void* address) {
  const MutexLock lock(mutex_);
  if (api_ == nullptr) {
    ONECOPY_ASSIGN_OR_RETURN(api_, shim::LoadCuda());
  }
  auto failed = [&api = *api_](CUresult error) {
    return Status(Code::kFailedPrecondition, reasons::kGpuNotPinnable,
                  "opening a GPU's context for UCX: " + shim::CudaErrorText(api, error));
  };
  int ordinal = -1;
  CUresult error = api_->PointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                             reinterpret_cast<CUdeviceptr>(address));
  if (error != CUDA_SUCCESS) return failed(error);
  const auto known = open_.find(ordinal);
  CUcontext context = known == open_.end() ? nullptr : known->second;
  if (context == nullptr) {
    CUdevice device = 0;
    error = api_->DeviceGet(&device, ordinal);
    if (error == CUDA_SUCCESS) error = api_->DevicePrimaryCtxRetain(&context, device);
    if (error != CUDA_SUCCESS) return failed(error);
    open_[ordinal] = context;
  }
  error = api_->CtxSetCurrent(context);
  return error == CUDA_SUCCESS ? OkStatus() : failed(error);
}

void GpuContexts::UseAny() {
  const MutexLock lock(mutex_);
  if (!open_.empty()) api_->CtxSetCurrent(open_.begin()->second);
}

}  // namespace onecopy::ucx
