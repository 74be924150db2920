#include "client/lib/memory/gpu_device.h"

#include <utility>

#include "onecopy/reasons.h"

namespace onecopy::client {

Result<GpuDeviceRef> GpuDevice::OpenAny(std::shared_ptr<const shim::CudaApi> api) {
  int count = 0;
  int chosen = 0;
  api->DeviceGetCount(&count);
  for (int number = count - 1; number >= 0; --number) {
    CUdevice device = 0;
    unsigned flags = 0;
    int active = 0;
    if (api->DeviceGet(&device, number) == CUDA_SUCCESS &&
        api->DevicePrimaryCtxGetState(device, &flags, &active) == CUDA_SUCCESS && active != 0) {
      chosen = number;
    }
  }
  return Open(std::move(api), chosen);
}

Result<GpuDeviceRef> GpuDevice::Open(std::shared_ptr<const shim::CudaApi> api, int number) {
  int count = 0;
  CUdevice device = 0;
  CUresult error = api->DeviceGetCount(&count);
  if (error == CUDA_SUCCESS && (number < 0 || number >= count)) {
    return Status(Code::kNotFound, reasons::kDeviceNotFound,
                  "this process has no GPU " + std::to_string(number) + ": the driver shows " +
                      std::to_string(count),
                  "pass a smaller number; CUDA_VISIBLE_DEVICES selects the GPUs of a process");
  }
  if (error == CUDA_SUCCESS) error = api->DeviceGet(&device, number);
  if (error != CUDA_SUCCESS) {
    return Status(Code::kFailedPrecondition, reasons::kDriverFailed,
                  "finding GPU " + std::to_string(number) + ": " + shim::CudaErrorText(*api, error),
                  "check that nvidia-smi works");
  }
  std::shared_ptr<GpuDevice> gpu(new GpuDevice(std::move(api), device, number));
  char name[128] = {};
  if (gpu->api().DeviceGetName(name, sizeof name, device) == CUDA_SUCCESS) gpu->name_ = name;
  if (gpu->context_.outcome() != CUDA_SUCCESS) {
    return gpu->Failure("opening the context", gpu->context_.outcome());
  }
  ONECOPY_ASSIGN_OR_RETURN(gpu->uuid_, shim::ReadCudaUuid(gpu->api(), device));
  size_t total = 0;
  error = gpu->api().DeviceTotalMem(&total, device);
  if (error != CUDA_SUCCESS) return gpu->Failure("asking for the memory's size", error);
  gpu->total_bytes_ = total;
  return GpuDeviceRef(std::move(gpu));
}

bool GpuDevice::Has(CUdevice_attribute attribute) const {
  int value = 0;
  return api_->DeviceGetAttribute(&value, attribute, device_) == CUDA_SUCCESS && value != 0;
}

std::string GpuDevice::ToString() const {
  return "GPU " + std::to_string(number_) + (name_.empty() ? "" : " (" + name_ + ")");
}

Status GpuDevice::Failure(const std::string& what, CUresult error) const {
  return {Code::kFailedPrecondition, reasons::kDriverFailed,
          what + " on " + ToString() + ": " + shim::CudaErrorText(*api_, error),
          "check the kernel log for NVRM messages, and whether CUDA work of this process failed"};
}

}  // namespace onecopy::client
