#include "bench/ceiling/gpu.h"

#include "onecopy/reasons.h"
#include "onecopy/size.h"

namespace onecopy::bench {
namespace {

CUmemAccessDesc ReadWriteBy(CUdevice device) {
  CUmemAccessDesc access{};
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return access;
}

bool Has(const shim::CudaApi& api, CUdevice device, CUdevice_attribute attribute) {
  int value = 0;
  return api.DeviceGetAttribute(&value, attribute, device) == CUDA_SUCCESS && value != 0;
}

CUmemAllocationProp PropertiesOn(const Gpu& gpu) {
  CUmemAllocationProp properties{};
  properties.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  properties.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  properties.location.id = gpu.device();
  if (Has(gpu.api(), gpu.device(),
          CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED)) {
    properties.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  }
  if (Has(gpu.api(), gpu.device(), CU_DEVICE_ATTRIBUTE_GPU_DIRECT_RDMA_WITH_CUDA_VMM_SUPPORTED)) {
    properties.allocFlags.gpuDirectRDMACapable = 1;
  }
  return properties;
}

}  // namespace

Status CudaStatus(const shim::CudaApi& api, CUresult error, const std::string& what) {
  if (error == CUDA_SUCCESS) return OkStatus();
  return {Code::kFailedPrecondition, reasons::kDriverFailed,
          what + ": " + shim::CudaErrorText(api, error)};
}

Result<std::shared_ptr<Gpu>> Gpu::Open(CudaRef api, const std::string& uuid) {
  int count = 0;
  ONECOPY_RETURN_IF_ERROR(CudaStatus(*api, api->DeviceGetCount(&count), "counting GPUs"));
  for (int i = 0; i < count; ++i) {
    CUdevice device = 0;
    ONECOPY_RETURN_IF_ERROR(CudaStatus(*api, api->DeviceGet(&device, i), "looking for GPUs"));
    ONECOPY_ASSIGN_OR_RETURN(const shim::CudaUuid found, shim::ReadCudaUuid(*api, device));
    if (found.text != uuid) continue;
    CUcontext context = nullptr;
    ONECOPY_RETURN_IF_ERROR(CudaStatus(*api, api->DevicePrimaryCtxRetain(&context, device),
                                       "opening a context on " + uuid));
    return std::shared_ptr<Gpu>(new Gpu(std::move(api), device, context));
  }
  return Status(Code::kNotFound, reasons::kDeviceNotFound,
                "the driver does not show this process a GPU " + uuid);
}

Gpu::~Gpu() { api_->DevicePrimaryCtxRelease(device_); }

Result<std::unique_ptr<GpuMemory>> GpuMemory::Allocate(std::shared_ptr<Gpu> gpu, GpuMemoryKind kind,
                                                       uint64_t bytes) {
  std::unique_ptr<GpuMemory> memory(new GpuMemory(gpu, kind));
  const shim::ScopedCudaContext scope(gpu->api(), gpu->context());
  const CUresult error = kind == GpuMemoryKind::kVmm
                             ? memory->AllocateVmm(bytes)
                             : gpu->api().MemAlloc(&memory->address_, bytes);
  if (error == CUDA_ERROR_OUT_OF_MEMORY) {
    return Status(Code::kResourceExhausted, reasons::kNoMemory,
                  FormatBytes(bytes) + " do not fit on the GPU");
  }
  ONECOPY_RETURN_IF_ERROR(CudaStatus(gpu->api(), error, "allocating " + FormatBytes(bytes)));
  return memory;
}

CUresult GpuMemory::AllocateVmm(uint64_t bytes) {
  const shim::CudaApi& api = gpu_->api();
  const CUmemAllocationProp properties = PropertiesOn(*gpu_);
  size_t granularity = 0;
  CUresult error =
      api.MemGetAllocationGranularity(&granularity, &properties, CU_MEM_ALLOC_GRANULARITY_MINIMUM);
  if (error != CUDA_SUCCESS) return error;
  const uint64_t rounded = (bytes + granularity - 1) / granularity * granularity;
  CUmemGenericAllocationHandle handle = 0;
  error = api.MemCreate(&handle, rounded, &properties, 0);
  if (error != CUDA_SUCCESS) return error;
  error = api.MemAddressReserve(&address_, rounded, granularity, 0, 0);
  if (error == CUDA_SUCCESS) {
    reserved_bytes_ = rounded;
    error = api.MemMap(address_, rounded, 0, handle, 0);
    mapped_ = error == CUDA_SUCCESS;
  }
  api.MemRelease(handle);  // a mapping keeps the memory
  if (error != CUDA_SUCCESS) return error;
  const CUmemAccessDesc access = ReadWriteBy(gpu_->device());
  return api.MemSetAccess(address_, rounded, &access, 1);
}

GpuMemory::~GpuMemory() {
  const shim::CudaApi& api = gpu_->api();
  const shim::ScopedCudaContext scope(api, gpu_->context());
  if (kind_ == GpuMemoryKind::kMalloc) {
    if (address_ != 0) api.MemFree(address_);
    return;
  }
  if (mapped_) api.MemUnmap(address_, reserved_bytes_);
  if (reserved_bytes_ > 0) api.MemAddressFree(address_, reserved_bytes_);
}

Status GpuMemory::LetReach(const Gpu& other) const {
  const shim::CudaApi& api = gpu_->api();
  if (kind_ == GpuMemoryKind::kVmm) {
    const CUmemAccessDesc access = ReadWriteBy(other.device());
    return CudaStatus(api, api.MemSetAccess(address_, reserved_bytes_, &access, 1),
                      "enabling peer access between two GPUs");
  }
  const shim::ScopedCudaContext scope(api, other.context());
  const CUresult error = api.CtxEnablePeerAccess(gpu_->context(), 0);
  if (error == CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED) return OkStatus();
  return CudaStatus(api, error, "enabling peer access between two GPUs");
}

}  // namespace onecopy::bench
