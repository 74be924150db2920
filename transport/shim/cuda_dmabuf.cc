#include <fcntl.h>
#include <unistd.h>

#include "onecopy/reasons.h"
#include "onecopy/size.h"
#include "transport/shim/cuda_export.h"

namespace onecopy::shim {
namespace {

// CU_MEM_RANGE_FLAG_DMA_BUF_MAPPING_TYPE_PCIE, which headers before CUDA 12.8 lack: network devices
// are to reach the memory over PCIe, also where the processor has a faster way to it. Drivers that
// do not know it, and GPUs that have no other way, may refuse it.
constexpr unsigned long long kMappedOverPcie = 1;

Status NotPinnable(const std::string& why) {
  return {Code::kFailedPrecondition, reasons::kGpuNotPinnable,
          "GPU memory cannot be exported as a dma-buf: " + why,
          "use the open kernel modules of NVIDIA's driver on Linux 5.12 or newer; if you cannot, "
          "load nvidia-peermem"};
}

}  // namespace

Result<CudaDmaBuf> ExportDmaBuf(const CudaApi& api, CUdevice device, CUdeviceptr pointer,
                                uint64_t bytes) {
  if (api.MemGetHandleForAddressRange == nullptr) {
    return NotPinnable("the driver (CUDA " + CudaVersionText(api.driver_version) +
                       ") has no cuMemGetHandleForAddressRange");
  }
  int supported = 0;
  CUresult error =
      api.DeviceGetAttribute(&supported, CU_DEVICE_ATTRIBUTE_DMA_BUF_SUPPORTED, device);
  if (error != CUDA_SUCCESS || supported == 0) {
    return NotPinnable("the driver reports no dma-buf for this GPU on this kernel" +
                       (error == CUDA_SUCCESS ? "" : ": " + CudaErrorText(api, error)));
  }
  const auto page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const CUdeviceptr first = pointer / page * page;
  uint64_t whole = (pointer - first + bytes + page - 1) / page * page;
  int fd = -1;
  for (const unsigned long long flags : {kMappedOverPcie, 0ULL}) {
    error = api.MemGetHandleForAddressRange(&fd, first, whole, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD,
                                            flags);
    if (error == CUDA_SUCCESS) break;
  }
  uint64_t offset = pointer - first;
  CUdeviceptr base = 0;
  size_t size = 0;
  if (error == CUDA_ERROR_INVALID_VALUE &&
      api.MemGetAddressRange(&base, &size, pointer) == CUDA_SUCCESS && base % page == 0) {
    // Memory of a pool is exported from its allocation's first byte on, or not at all.
    offset = pointer - base;
    whole = (size + page - 1) / page * page;
    error =
        api.MemGetHandleForAddressRange(&fd, base, whole, CU_MEM_RANGE_HANDLE_TYPE_DMA_BUF_FD, 0);
  }
  if (error != CUDA_SUCCESS) {
    return NotPinnable("cuMemGetHandleForAddressRange of " + FormatBytes(whole) + ": " +
                       CudaErrorText(api, error));
  }
  CudaDmaBuf exported{os::UniqueFd(fd), offset};
  ::fcntl(fd, F_SETFD, FD_CLOEXEC);
  return exported;
}

}  // namespace onecopy::shim
